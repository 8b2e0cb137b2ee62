"""Workers as processes of their own, for tests; whatever is left of one is killed when its test ends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

PROGRAM = str(Path(__file__).with_name("fake_worker.py"))
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", "2"]


def alive(pid: int) -> bool:
    """A process that ended and was not waited for by whoever adopted it does not count."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    try:
        return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Processes(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="worker-")
        self.addCleanup(self._remove)
        self.pids: list[int] = []

    def _remove(self) -> None:
        for pid in self.pids:
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def start(self, *arguments: str, runner: list[str] | None = None, program: list[str] | None = None, **environment: str) -> subprocess.Popen[str]:
        """`program`: what is run, the fake worker where not said. Its output goes to files, which `ready` and `log` read."""
        before = {name: value for name, value in os.environ.items() if name != "STATESET_WORKER_TOKEN"}
        with open(self.path("out"), "w") as out, open(self.path("err"), "w") as err:
            process = subprocess.Popen(
                [sys.executable, *(runner or []), *(program or [PROGRAM]), *arguments],
                cwd=self.folder,
                stdout=out,
                stderr=err,
                text=True,
                env={**before, "OMP_NUM_THREADS": "1", "TMPDIR": self.folder, **environment},
            )
        self.pids.append(process.pid)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def ready(self) -> dict[str, Any]:
        """What the worker says when it can be reached."""
        return self.until(lambda: next((json.loads(line) for line in self.text("out").splitlines() if '"ready"' in line), None))

    def text(self, name: str) -> str:
        return Path(self.path(name)).read_text()

    def until(self, look: Any) -> Any:
        """What `look` gives, once it gives something."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            found = look()
            if found:
                return found
            time.sleep(0.05)
        self.fail(f"in vain.\n{self.text('out')}\n{self.text('err')}")

    def until_gone(self, *pids: int) -> None:
        self.pids += pids
        self.until(lambda: not any(alive(pid) for pid in pids))

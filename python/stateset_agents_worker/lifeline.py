"""What ties a worker to the life of others, and what it leaves behind when it stalls.

No worker outlives its parent: on Linux the kernel ends it (PR_SET_PDEATHSIG), elsewhere a thread looks. `--parent` names a
process further up (Node, with torchrun between), which is watched too. SIGUSR1 writes the stacks of all threads to a file,
whatever holds the interpreter.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import select
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

PR_SET_PDEATHSIG = 1
POLL_SECONDS = 1.0


def end(code: int, why: str | None = None) -> NoReturn:
    """Ends this process at once, whatever its threads do. A code other than 0 makes torchrun end the other ranks."""
    try:
        if why is not None:
            log(why)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        # Whoever read the log may be the one that is gone: a broken pipe must not keep this process.
        os._exit(code)


def log(line: str) -> None:
    print(f"stateset-agents-worker: {line}", file=sys.stderr, flush=True)


def die_with_parent() -> None:
    """Call it first: a parent that died before is noticed only where `watch` is given its number."""
    parent = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            end(1, "the parent process is gone.")
    else:
        _in_background(lambda: _wait_while(lambda: os.getppid() == parent))


def watch(pid: int) -> None:
    """Ends this process when another one that is not its parent ends."""
    if hasattr(os, "pidfd_open"):
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            end(1, f"process {pid} is gone.")
        except OSError:
            pass  # An old kernel, or a sandbox that forbids it: look instead.
        else:
            _in_background(lambda: select.select([handle], [], []))
            return
    _in_background(lambda: _wait_while(lambda: _lives(pid)))


def _in_background(wait: Any) -> None:
    def run() -> None:
        wait()
        end(1, "the process that started this worker is gone.")

    threading.Thread(target=run, name="lifeline", daemon=True).start()


def _wait_while(holds: Any) -> None:
    while holds():
        time.sleep(POLL_SECONDS)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Stacks:
    """Where this worker's stacks go: `folder/rank-N.txt`, else standard error; one more record for each SIGUSR1."""

    def __init__(self, folder: str | None, rank: int) -> None:
        self.folder = None if folder is None else Path(folder)
        # Kept open: faulthandler writes to its number, with no Python in between.
        self._file: Any = sys.stderr
        if self.folder is not None:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                # After what is there: the worker that follows one that stalled must not undo what that left.
                self._file = open(self.folder / f"rank-{rank}.txt", "a")
            except OSError as problem:
                # A full disk must not keep a worker from starting.
                log(f"stacks go to standard error: {problem}.")
                self.folder = None
        faulthandler.register(signal.SIGUSR1, self._file, all_threads=True, chain=False)

    def of_this_process(self) -> str:
        with tempfile.TemporaryFile("w+") as file:
            faulthandler.dump_traceback(file, all_threads=True)
            file.seek(0)
            return file.read()

    def ask(self, pids: dict[int, int]) -> dict[int, int]:
        """Signals ranks of this machine ({rank: pid}); returns how long their files were, for `answers`."""
        if self.folder is None:
            return {}
        before = {}
        for rank, pid in pids.items():
            file = self.folder / f"rank-{rank}.txt"
            before[rank] = file.stat().st_size if file.exists() else 0
            try:
                os.kill(pid, signal.SIGUSR1)
            except ProcessLookupError:
                continue
        return before

    def answers(self, before: dict[int, int]) -> tuple[str, list[int]]:
        """What was written since, by rank, and which ranks wrote nothing: they are stopped, or gone."""
        written = {}
        for rank, size in before.items():
            file = self.folder / f"rank-{rank}.txt" if self.folder else None
            written[rank] = file.read_bytes()[size:].decode(errors="replace") if file is not None and file.exists() else ""
        text = "\n".join(f"Rank {rank}:\n{text or '(no answer)'}" for rank, text in written.items())
        return text, [rank for rank, text in written.items() if not text]

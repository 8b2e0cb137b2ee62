"""Two processes of one module, as torchrun would start them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys


def run_two_ranks(module: str, *arguments: str) -> None:
    """`python -m module arguments` on two ranks of this machine; fails with what they said."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    shared = dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", OMP_NUM_THREADS="1")
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", module, *arguments],
            env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        logs = [process.communicate(timeout=240)[1] for process in started]
    finally:
        for process in started:
            process.kill()
    if any(process.returncode for process in started):
        raise AssertionError("\n".join(log[-3000:] for log in logs))

from __future__ import annotations

import os
import socket
import subprocess
import sys
import unittest

import torch

from stateset_agents_worker.ranks import Ranks
from tests.models import CONFIGS, folder, make
from tests.sharded import IDS, work


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Sharded(unittest.TestCase):
    def test_two_ranks_sample_what_one_does(self) -> None:
        model, out = make(CONFIGS["qwen3"]), os.path.join(folder(), "found.pt")
        shared = dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", OMP_NUM_THREADS="1")
        started = [
            subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "tests.sharded", model, out],
                env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        try:
            logs = [process.communicate(timeout=120)[1] for process in started]
        finally:
            for process in started:
                process.kill()
        self.assertEqual([process.returncode for process in started], [0, 0], logs)
        alone = work(model, Ranks(1, 0, torch.device("cpu")))
        self.assertEqual(torch.load(out), alone)
        self.assertEqual(len(alone), 2 * len(IDS))
        self.assertNotEqual(alone[0], alone[100])


if __name__ == "__main__":
    unittest.main()

from __future__ import annotations

import os
import unittest

import torch

from stateset_agents_worker.ranks import Ranks
from tests.models import CONFIGS, folder, make
from tests.sharded import IDS, work
from tests.two_ranks import run_two_ranks


class Sharded(unittest.TestCase):
    def test_two_ranks_sample_what_one_does(self) -> None:
        model, out = make(CONFIGS["qwen3"]), os.path.join(folder(), "found.pt")
        run_two_ranks("tests.sharded", model, out)
        alone = work(model, Ranks(1, 0, torch.device("cpu")))
        self.assertEqual(torch.load(out), alone)
        self.assertEqual(len(alone), 2 * len(IDS))
        self.assertNotEqual(alone[0], alone[100])


if __name__ == "__main__":
    unittest.main()

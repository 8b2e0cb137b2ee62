"""Two ranks give what one does."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import unittest
from unittest import mock

import numpy as np
import torch

from stateset_agents_worker.ranks import Ranks
from tests.models import CONFIGS, LORA, folder, make
from tests.two_ranks import run_two_ranks

torch.set_num_threads(1)
#: ‖two − one‖ / ‖one‖ in f64, over three steps with everything that a rank may do: 6e-15 is seen.
MOST_IN_DOUBLE = 1e-12
#: In f32 ranks add the same products in another order: of scores before any step, where nothing is added up over ranks; of scores and
#: weights after one; and of what is a gradient or made of nothing else: those after a step, moments, the value head's bias, which began
#: at zero. How much of it there is depends on the processor's products: over six kinds of instructions, 1.0e-6 and 2.7e-6 were the most.
#: Gradients are sums that cancel, and differ more than the weights they are taken at. AdamW's epsilon is large here: a key's bias has
#: hardly a gradient but rounding, and whole moves of that would be compared.
MOST_AT_FIRST, MOST, MOST_OF_GRADIENTS = 1e-6, 5e-6, 2e-5

Numbers = dict[str, np.ndarray]


def two_ranks(module: str, cases: list[tuple[str, dict]]) -> list[Numbers]:
    out = os.path.join(folder(), "found.pickle")
    run_two_ranks(module, out, json.dumps(cases))
    return read(out)


def read(out: str) -> list[Numbers]:
    with open(out, "rb") as file:
        return pickle.load(file)


def alone(module: str, cases: list[tuple[str, dict]]) -> list[Numbers]:
    out = os.path.join(folder(), "found.pickle")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-W", "ignore", "-m", module, out, json.dumps(cases)], check=True, env=environment)
    return read(out)


def apart(two: np.ndarray, one: np.ndarray) -> float:
    return float(np.linalg.norm(two - one) / np.linalg.norm(one))


class RanksTest(unittest.TestCase):
    def test_two_ranks_compute_what_one_does(self) -> None:
        named = (("mistral", {}), ("qwen2", {}), ("gpt2", {"lora": LORA}))
        cases = [(make(CONFIGS[name], dtype=torch.float64), options) for name, options in named]
        for two, one in zip(two_ranks("tests.in_double", cases), alone("tests.in_double", cases), strict=True):
            self.assertEqual(one.keys(), two.keys())
            for key, values in one.items():
                self.assertEqual(values.dtype, np.float64, key)
                self.assertLess(apart(two[key], values), MOST_IN_DOUBLE, key)

    def test_two_ranks_round_as_little_as_one(self) -> None:
        case = (make(CONFIGS["qwen2"]), {})
        (two,) = two_ranks("tests.scenario", [case])
        (one,) = alone("tests.scenario", [case])
        for key, values in one.items():
            of_gradients = key.startswith(("step 1 gradients", "step 2 gradients", "moments", "end value.bias"))
            most = MOST_OF_GRADIENTS if of_gradients else MOST_AT_FIRST if key.startswith("step 0 tree") else MOST
            self.assertLess(apart(two[key], values), most, key)

    def test_a_rank_without_a_gpu_says_how_many_there_are(self) -> None:
        shown = mock.patch.multiple(torch.cuda, is_available=lambda: True, device_count=lambda: 1)
        environment = mock.patch.dict(os.environ, WORLD_SIZE="4", RANK="3", LOCAL_RANK="3")
        with shown, environment, self.assertRaises(SystemExit) as ended:
            Ranks.join()
        # The client looks for these words.
        self.assertIn("rank 3 wants GPU 3, and this machine shows 1.", str(ended.exception))


if __name__ == "__main__":
    unittest.main()

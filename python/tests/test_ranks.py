"""Two ranks give what one does."""

from __future__ import annotations

import json
import os
import unittest
from unittest import mock

import torch

from stateset_agents_worker.ranks import Ranks
from tests.models import CONFIGS, LORA, folder, make
from tests.scenario import run
from tests.two_ranks import run_two_ranks

torch.set_num_threads(1)
#: ‖two − one‖ / ‖one‖ of scores before any step, where nothing is added up over ranks; of scores and weights after one; and of what is
#: a gradient or made of nothing else: those after a step, moments, the value head's bias, which began at zero. Ranks add the same
#: products in another order, and that is all: computed in f64 the same stretch is apart by 1e-14 at most, 2^29 times less as f64 is finer
#: by 2^29. How much of it there is depends on the processor's products: over six kinds of instructions, 1.0e-6 and 2.7e-6 were the most.
#: Gradients are sums that cancel, and differ more than the weights they are taken at. AdamW's epsilon is large here: a key's bias has
#: hardly a gradient but rounding, and whole moves of that would be compared.
MOST_AT_FIRST, MOST, MOST_OF_GRADIENTS = 1e-6, 5e-6, 2e-5


def two_ranks(cases: list[tuple[str, dict]]) -> list[dict[str, torch.Tensor]]:
    out = os.path.join(folder(), "found.pt")
    run_two_ranks("tests.scenario", out, json.dumps(cases))
    return torch.load(out)


class RanksTest(unittest.TestCase):
    def test_two_ranks_give_what_one_does(self) -> None:
        cases = [(make(CONFIGS[name]), options) for name, options in (("mistral", {}), ("qwen2", {}), ("gpt2", {"lora": LORA}))]
        for (model, options), together in zip(cases, two_ranks(cases)):
            alone = run(Ranks(1, 0, torch.device("cpu")), model, options)
            self.assertEqual(alone.keys(), together.keys())
            for key, values in alone.items():
                of_gradients = key.startswith(("step 1 gradients", "step 2 gradients", "moments", "end value.bias"))
                most = MOST_OF_GRADIENTS if of_gradients else MOST_AT_FIRST if key.startswith("step 0 tree") else MOST
                apart = ((together[key] - values).norm() / values.norm()).item()
                self.assertLess(apart, most, key)

    def test_a_rank_without_a_gpu_says_how_many_there_are(self) -> None:
        shown = mock.patch.multiple(torch.cuda, is_available=lambda: True, device_count=lambda: 1)
        environment = mock.patch.dict(os.environ, WORLD_SIZE="4", RANK="3", LOCAL_RANK="3")
        with shown, environment, self.assertRaises(SystemExit) as ended:
            Ranks.join()
        # The client looks for these words.
        self.assertIn("rank 3 wants GPU 3, and this machine shows 1.", str(ended.exception))


if __name__ == "__main__":
    unittest.main()

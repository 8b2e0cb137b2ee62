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


def two_ranks(cases: list[tuple[str, dict]]) -> list[dict[str, torch.Tensor]]:
    out = os.path.join(folder(), "found.pt")
    run_two_ranks("tests.scenario", out, json.dumps(cases))
    return torch.load(out)


class RanksTest(unittest.TestCase):
    def test_two_ranks(self) -> None:
        cases = [(make(CONFIGS[name]), options) for name, options in (("mistral", {}), ("qwen2", {}), ("gpt2", {"lora": LORA}))]
        for (model, options), together in zip(cases, two_ranks(cases)):
            alone = run(Ranks(1, 0, torch.device("cpu")), model, options)
            self.assertEqual(alone.keys(), together.keys())
            for key, values in alone.items():
                # After a step the roundings of the last are part of what is compared.
                most = 1e-6 if key.startswith("step 0") else 5e-6
                self.assertLess(((together[key] - values).norm() / max(1.0, values.norm().item())).item(), most, key)

    def test_a_rank_without_a_gpu_says_how_many_there_are(self) -> None:
        shown = mock.patch.multiple(torch.cuda, is_available=lambda: True, device_count=lambda: 1)
        environment = mock.patch.dict(os.environ, WORLD_SIZE="4", RANK="3", LOCAL_RANK="3")
        with shown, environment, self.assertRaises(SystemExit) as ended:
            Ranks.join()
        # The client looks for these words.
        self.assertIn("rank 3 wants GPU 3, and this machine shows 1.", str(ended.exception))


if __name__ == "__main__":
    unittest.main()

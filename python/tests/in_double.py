"""scenario.py in f64, where two ranks and one differ by what is wrong and not by rounding: `python -m tests.in_double OUT CASES`."""

from __future__ import annotations

import json
import sys

import torch

# What the worker's modules call f32 is f64 from here on. Before they are read in: some keep it.
torch.float32 = torch.float = torch.float64  # type: ignore[misc, assignment]
torch.Tensor.float = torch.Tensor.double  # type: ignore[method-assign, assignment]
torch.set_default_dtype(torch.float64)

from tests import models, scenario  # noqa: E402

scenario.derivatives = lambda *of: {name: given.double() for name, given in models.derivatives(*of).items()}

if __name__ == "__main__":
    scenario.main(sys.argv[1], json.loads(sys.argv[2]))

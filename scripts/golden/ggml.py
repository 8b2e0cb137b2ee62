"""Blocks of every type of GGUF file that we read, and what the `gguf` package makes of them: goldens for policy/gguf.

    python -m venv /tmp/gguf && /tmp/gguf/bin/pip install gguf && /tmp/gguf/bin/python scripts/golden/ggml.py
"""

import base64
import json
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import dequantize, quantize
from gguf.constants import GGML_QUANT_SIZES

TYPES = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"]
# Where the halves of a block lie: anything else may be any byte, but a scale must be a finite number.
HALVES = {"Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
random = np.random.default_rng(14)


def text(array):
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def blocks(name):
    block, size = GGML_QUANT_SIZES[Type[name]]
    if block == 1:
        values = random.normal(size=64).astype(np.float32)
        return quantize(values, Type[name]).view(np.uint8).reshape(1, -1)
    rows = random.integers(0, 256, size=(5, size), dtype=np.uint8)
    # An ordinary scale, a negative one, one below the normal halves, zero, and the largest half.
    scales = np.array([0.0123, -0.77, 3e-6, 0, 65504], dtype=np.float16).view(np.uint8).reshape(5, 2)
    for at in HALVES[name]:
        rows[:, at : at + 2] = np.roll(scales, at // 2, axis=0)
    return rows.reshape(1, -1)


read = {}
for name in TYPES:
    data = blocks(name)
    read[name] = {"bytes": text(data), "values": text(dequantize(data, Type[name]).astype(np.float32))}

numbers = np.concatenate(
    [
        random.normal(size=64),
        random.normal(size=32) * 1e-6,
        np.zeros(32),
        np.arange(32) + 0.5,  # halves, away from zero
        np.array([127.0, 0.5, -0.5, 1.5, -1.5, 2.5, 126.5, -126.5] * 4),
    ]
).astype(np.float32)
written = {name: text(quantize(numbers.reshape(1, -1), Type[name])) for name in ["F32", "F16", "Q8_0"]}

target = Path(__file__).parents[2] / "packages/stateset-agents/src/policy/gguf/fixtures/ggml-blocks.json"
target.parent.mkdir(exist_ok=True)
target.write_text(json.dumps({"read": read, "numbers": text(numbers), "written": written}, indent=2) + "\n")

"""The worker's side of a crossing: restores each snapshot, learns where it is told to, and writes it all again.

    crossing.py CASES     JSON: [{ model, adapter, lora, from, reference, to, learn }]; prints what each said
"""

import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 4, "python"))

import numpy as np  # noqa: E402
import torch  # noqa: E402

from stateset_agents_worker.engine import Engine  # noqa: E402
from stateset_agents_worker.errors import WorkerError  # noqa: E402
from stateset_agents_worker.ranks import Ranks  # noqa: E402

torch.set_num_threads(1)


def learn(engine: Engine) -> None:
    tokens = torch.arange(5, 25, dtype=torch.int32)
    tree = {
        "tokens": tokens,
        "nodeStart": torch.tensor([0, len(tokens)], dtype=torch.int32),
        "nodeParent": torch.tensor([-1], dtype=torch.int32),
        "wanted": torch.from_numpy((np.arange(len(tokens)) > 0).astype(np.uint8)),
    }
    number = engine.call("forward", {"values": True}, tree)[0]["pass"]
    engine.call("backward", {"pass": number}, {"logprobs": torch.full((20,), -0.05), "values": torch.full((20,), 0.05)})
    engine.call("step", {"learningRate": 1e-2, "weightDecay": 0.01}, {})


def cross(case: dict) -> dict:
    options = {"model": case["model"], "adapter": case["adapter"], "lora": case["lora"], "dtype": "f32", "quantise": None, "seed": 1}
    engine = Engine.open(options, Ranks(1, 0, torch.device("cpu")))
    try:
        said = engine.call("restore", {"dir": case["from"]}, {})[0]
    except WorkerError as error:
        return error.envelope()
    reference = engine.call("reference", {"of": {"from": case["reference"]}}, {})[0]
    to = {name: os.path.join(case["to"], name) for name in ("snapshot", "reference", "saved", "merged")}
    engine.call("referenceSave", {"reference": reference["reference"], "dir": to["reference"], "version": reference["version"]}, {})
    if case["learn"]:
        learn(engine)
    engine.call("snapshot", {"dir": to["snapshot"], "version": said["version"]}, {})
    engine.call("save", {"dir": to["saved"], "base": case["model"]}, {})
    engine.call("save", {"dir": to["merged"], "merge": True}, {})
    return {**said, "steps": engine.optimiser.steps}


if __name__ == "__main__":
    print(json.dumps([cross(case) for case in json.loads(sys.argv[1])]))

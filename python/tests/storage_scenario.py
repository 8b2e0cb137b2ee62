"""
What ranks do with files, on whatever device there is. Run by test_storage.py: storage_scenario.py CASES, each a model, options, a
snapshot to begin with or null, and a folder for all it writes.
"""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import torch

from stateset_agents_worker import snapshots
from stateset_agents_worker.engine import Engine
from stateset_agents_worker.errors import WorkerError
from stateset_agents_worker.lifeline import end
from stateset_agents_worker.ranks import Ranks
from tests.models import VOCAB, derivatives, open_engine
from tests.trees import arrays, random_tree

torch.set_num_threads(1)
STEP = dict(learningRate=1e-2, weightDecay=0.1, clipNorm=1.0, epsilon=1e-3)


def learn(engine: Engine, seed: int, scope: str = "all") -> None:
    rng = np.random.default_rng(seed)
    tree = arrays(random_tree(rng, 6, 6, VOCAB, roots=2))
    names = ("logprobs", "values") if engine.masters.value else ("logprobs",)
    number = engine.call("forward", {"values": len(names) > 1}, tree)[0]["pass"]
    engine.call("backward", {"pass": number}, derivatives(rng, len(tree["tokens"]), *names))
    engine.call("step", {**STEP, "scope": scope}, {})


def work(ranks: Ranks, model: str, options: dict, begin: str | None, out: str) -> None:
    engine = open_engine(model, ranks, **options)
    if begin is None:
        engine.call("addValueHead", {}, {})
        learn(engine, 1)
    else:
        engine.call("restore", {"dir": begin}, {})
    # Small, so that every rank has several files.
    snapshots.snapshot(engine, {"dir": os.path.join(out, "snapshot"), "version": "v1"}, most=10_000)
    engine.call("save", {"dir": os.path.join(out, "saved"), "base": model}, {})
    learn(engine, 2)
    engine.call("snapshot", {"dir": os.path.join(out, "later"), "version": "v2"}, {})
    reference = engine.call("reference", {"of": "present"}, {})[0]["reference"]
    engine.call("referenceSave", {"reference": reference, "dir": os.path.join(out, "reference"), "version": "v2"}, {})
    engine.call("load", {"dir": os.path.join(out, "saved")}, {})
    engine.call("save", {"dir": os.path.join(out, "loaded"), "base": model, "merge": True}, {})
    # One rank's disk fails: all say so, and go on.
    last = ranks.rank == ranks.world - 1
    place = os.path.join(out, "a-file", "below") if last else os.path.join(out, "blocked")
    if last:
        open(os.path.join(out, "a-file"), "w").close()
    try:
        engine.call("snapshot", {"dir": place, "version": "v3"}, {})
        raise AssertionError("A snapshot on a disk that fails was written.")
    except WorkerError as error:
        assert error.code == "WRITE_FAILED", error.code
    engine.call("snapshot", {"dir": os.path.join(out, "after"), "version": "v3"}, {})


if __name__ == "__main__":
    joined = Ranks.join()
    for case in json.loads(sys.argv[1]):
        work(joined, *case)
    joined.leave()
    end(0)

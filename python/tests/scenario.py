"""A stretch of work, the same however many ranks do it. Run by test_ranks.py: scenario.py OUT CASES"""

from __future__ import annotations

import json
import pickle
import sys

import numpy as np
import torch

from stateset_agents_worker.engine import Engine
from stateset_agents_worker.lifeline import end
from stateset_agents_worker.ranks import Ranks
from tests.models import VOCAB, derivatives, open_engine, spread_lora
from tests.trees import arrays, random_tree

torch.set_num_threads(1)
STEP = dict(learningRate=2e-3, weightDecay=0.1, clipNorm=1.0, epsilon=1e-3)


def work(engine: Engine) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    rng = np.random.default_rng(9)

    def note(name: str, got: dict[str, torch.Tensor]) -> None:
        found.update({f"{name} {kind}": values.clone() for kind, values in got.items()})

    engine.call("addValueHead", {}, {})
    engine.masters.write({"value.weight": torch.from_numpy(rng.standard_normal((1, 48)).astype(np.float32))})
    # The last has one root: with two ranks, one has nothing to do.
    trees = [arrays(random_tree(rng, 9, 7, VOCAB, roots=roots)) for roots in (3, 4, 1)]
    wants = dict(entropy=True, values=True, hidden=True, temperature=0.9)
    reference = engine.call("reference", {"of": "present"}, {})[0]["reference"]
    base = engine.call("reference", {"of": "base"}, {})[0]["reference"]
    for step in range(3):
        passes = []
        for number, tree in enumerate(trees):
            result, got = engine.call("forward", {**wants, "recompute": number == 1}, tree)
            note(f"step {step} tree {number}", got)
            passes.append(result["pass"])
        engine.call("release", {"pass": engine.call("forward", {}, trees[0])[0]["pass"]}, {})
        for number in (1, 2, 0):
            given = derivatives(rng, len(trees[number]["tokens"]), "logprobs", "entropy", "values")
            engine.call("backward", {"pass": passes[number], "valuesIntoTrunk": number != 0}, given)
        alone = engine.call("forward", {"values": True}, trees[0])[0]["pass"]
        only = derivatives(rng, len(trees[0]["tokens"]), "values")
        engine.call("backward", {"pass": alone, "valuesIntoTrunk": False}, only)
        gradient = engine.call("vector", {"of": "gradients"}, {})[0]
        parameters = engine.call("vector", {"of": "parameters"}, {})[0]["vector"]
        dot = engine.call("vectorDot", {"a": gradient["vector"], "b": parameters}, {})[0]["dot"]
        norm = engine.call("vectorDot", {"a": gradient["vector"], "b": gradient["vector"]}, {})[0]["dot"] ** 0.5
        note(f"step {step} gradients", engine.call("vectorRead", {"a": gradient["vector"]}, {})[1])
        report = engine.call("step", STEP, {})[0]
        note(f"step {step}", {"numbers": torch.tensor([norm, dot, report["gradNorm"]])})
        note(f"after step {step} reference", engine.call("referenceLogprobs", {"reference": reference}, trees[0])[1])
        note(f"after step {step} base", engine.call("referenceLogprobs", {"reference": base}, trees[2])[1])
        engine.call("referenceBlend", {"reference": reference, "decay": 0.5}, {})
        note(f"after step {step} sample", sampled(engine))
    there = engine.call("vector", {"of": "parameters"}, {})[0]["vector"]
    engine.call("vectorAdd", {"a": there, "b": parameters, "scale": 0.01}, {})
    engine.call("vectorMove", {"a": there}, {})
    note("end", {name: engine.masters.read(name) for name in engine.masters.names})
    for which, kind in enumerate(("first", "second")):
        moments = {i: both[which] for i, both in engine.optimiser.moments.items()}
        note(f"moments {kind}", {engine.masters.names[i]: engine.masters.whole(i, part) for i, part in moments.items()})
    return found


def sampled(engine: Engine) -> dict[str, torch.Tensor]:
    """Greedy, on every rank the same."""
    engine.sampler.add(1, {"temperature": 0, "maxTokens": 5, "seed": 1}, torch.tensor([5, 6, 7], dtype=torch.int32))
    outs = []
    while not outs:
        outs = [out for out in engine.sampler.step() if out.final]
    engine.sampler.forget()
    return {"tokens": torch.as_tensor(outs[0].arrays["tokens"]).float(), "logprobs": torch.as_tensor(outs[0].arrays["logprobs"])}


def run(ranks: Ranks, model: str, options: dict) -> dict[str, torch.Tensor]:
    engine = open_engine(model, ranks, **options)
    if options.get("lora"):
        spread_lora(engine)
    return work(engine)


def main(out: str, cases: list[tuple[str, dict]]) -> None:
    ranks = Ranks.join()
    found = [run(ranks, model, options) for model, options in cases]
    if ranks.rank == 0:
        with open(out, "wb") as file:
            pickle.dump([{name: values.numpy() for name, values in one.items()} for one in found], file)
    ranks.leave()
    end(0)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))

#!/usr/bin/env python3
"""Writes the golden values that the TypeScript algorithms are tested against.

    python scripts/golden/make_goldens.py [--out DIR] [--batches N]

Needs torch and numpy. Case k of every loss and advantage uses batch k and options drawn from (name, k) alone, so that --batches N gives the
first N cases of the full fixtures.
"""

import argparse
import json
import zlib
from pathlib import Path

import numpy as np
import torch

from advantages import ADVANTAGES
from batches import BATCHES, PER_TOKEN, compact, compact_rows, float32, make_batch, nine
from losses import LOSSES, PREFERENCES, kto, token_mean
from shaping import shaping_case

DEFAULT_OUT = Path(__file__).resolve().parents[2] / "packages/stateset-agents/src/algorithm/fixtures"


def options_rng(name, index):
    return np.random.default_rng([zlib.crc32(name.encode()), index])


def tensors(batch):
    out = dict(batch)
    for key in [*PER_TOKEN, "mask", "rewards"]:
        out[key] = torch.tensor(batch[key], dtype=torch.float64)
    out["group"] = torch.tensor(batch["group"])
    for key in ("logprobs", "entropy", "values"):
        out[key].requires_grad_(True)
    return out


def loss_case(name, index, batch):
    loss_of, draw = LOSSES[name]
    options = draw(options_rng(name, index))
    b = tensors(batch)
    loss, metrics = loss_of(b, options)
    loss.backward()
    case = {"batch": index, "options": options, "loss": nine(loss.item())}
    for key, name_ in (("logprobs", "dLogprobs"), ("entropy", "dEntropy"), ("values", "dValues")):
        if b[key].grad is not None:
            case[name_] = compact_rows(batch, b[key].grad.numpy())
    log_ratio = (b["logprobs"] - b["old"]).detach().clamp(-20, 20)
    metrics["approxKl"] = token_mean(b, torch.exp(log_ratio) - 1 - log_ratio)
    case["metrics"] = {key: nine(float(torch.as_tensor(value).detach())) for key, value in metrics.items()}
    return case


def advantage_case(name, index, batch):
    advantage_of, draw = ADVANTAGES[name]
    options = draw(options_rng(name, index))
    advantages, returns = advantage_of(batch, options)
    case = {"batch": index, "options": options, "advantages": compact_rows(batch, advantages)}
    if returns is not None:
        case["returns"] = compact_rows(batch, returns)
    return case


def preference_side(rng, scale, below_zero=False):
    n = int(rng.integers(1, 9))
    ref = float32(-4 * rng.random(n))
    logp = float32(ref + scale * rng.standard_normal(n))
    if below_zero:
        logp = float32(-np.abs(logp) - 0.01)
    leaf = torch.tensor(logp, requires_grad=True)
    return {"logprobs": [nine(x) for x in logp], "ref": [nine(x) for x in ref]}, {"logp": leaf, "ref": torch.tensor(ref)}


def preference_case(name, index):
    rng = options_rng(name, index)
    loss_of, draw = PREFERENCES[name]
    options = {"beta": [0.1, 0.5, 0.01][rng.integers(3)], **draw(rng)}
    scale = 30.0 if index % 5 == 4 else 1.0  # now and then far into the sigmoid's tail
    pairs, losses, leaves = [], [], []
    for _ in range(int(rng.integers(1, 4))):
        pair, sides = {}, {}
        for side in ("chosen", "rejected"):
            pair[side], sides[side] = preference_side(rng, scale, name == "orpo")
            leaves.append(sides[side]["logp"])
        losses.append(loss_of(sides["chosen"], sides["rejected"], options))
        pairs.append(pair)
    loss = torch.stack(losses).mean()
    loss.backward()
    grads = [[nine(x) for x in leaf.grad] for leaf in leaves]
    return {"options": options, "pairs": pairs, "loss": nine(loss.item()), "dChosen": grads[0::2], "dRejected": grads[1::2]}


def kto_case(index):
    rng = options_rng("kto", index)
    options = {
        "beta": [0.1, 0.5, 0.01][rng.integers(3)],
        "desirableWeight": [1.0, 1.33][rng.integers(2)],
        "undesirableWeight": [1.0, 0.5][rng.integers(2)],
    }
    scale = 30.0 if index % 5 == 4 else 1.0
    n = int(rng.integers(1, 6))
    stored, sides = zip(*[preference_side(rng, scale) for _ in range(n)])
    stored_others, others = zip(*[preference_side(rng, scale) for _ in range(int(rng.integers(1, 6)))])
    good = [bool(x) for x in rng.integers(0, 2, n)]
    loss, kl = kto([{**s, "desirable": g} for s, g in zip(sides, good)], others, options)
    loss.backward()
    return {
        "options": options,
        "completions": [{**s, "desirable": g} for s, g in zip(stored, good)],
        "mismatched": list(stored_others),
        "loss": nine(loss.item()),
        "kl": nine(kl.item()),
        "dLogprobs": [[nine(x) for x in s["logp"].grad] for s in sides],
    }


def bradley_terry_case(index):
    rng = options_rng("bradley-terry", index)
    n = int(rng.integers(1, 6))
    scale = 50.0 if index % 5 == 4 else 2.0
    chosen = torch.tensor([nine(x) for x in scale * rng.standard_normal(n)], dtype=torch.float64, requires_grad=True)
    rejected = torch.tensor([nine(x) for x in scale * rng.standard_normal(n)], dtype=torch.float64, requires_grad=True)
    margin = torch.tensor([nine(x) for x in rng.random(n)] if index % 2 else [0.0] * n, dtype=torch.float64)
    loss = -torch.nn.functional.logsigmoid(chosen - rejected - margin).mean()
    loss.backward()
    pairs = [{"chosen": c, "rejected": r, "margin": m} for c, r, m in zip(chosen.tolist(), rejected.tolist(), margin.tolist())]
    return {
        "pairs": pairs,
        "loss": nine(loss.item()),
        "dChosen": [nine(x) for x in chosen.grad],
        "dRejected": [nine(x) for x in rejected.grad],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--batches", type=int, default=BATCHES)
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    batches = [make_batch(i) for i in range(args.batches)]
    files = {
        "batches": [compact(b) for b in batches],
        "losses": {name: [loss_case(name, i, b) for i, b in enumerate(batches)] for name in LOSSES},
        "advantages": {name: [advantage_case(name, i, b) for i, b in enumerate(batches)] for name in ADVANTAGES},
        "preferences": {
            **{name: [preference_case(name, i) for i in range(args.batches)] for name in PREFERENCES},
            "kto": [kto_case(i) for i in range(args.batches)],
            "bradley-terry": [bradley_terry_case(i) for i in range(args.batches)],
        },
        "shaping": [shaping_case(options_rng("shaping", i), i, nine) for i in range(args.batches)],
    }
    for name, content in files.items():
        (args.out / f"{name}.json").write_text(json.dumps(content, separators=(",", ":"), allow_nan=False) + "\n")


if __name__ == "__main__":
    main()

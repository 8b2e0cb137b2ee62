"""Random batches in the padded, masked layout of PyTorch trainers.

Every array is [sequences, positions]; `mask` is 1 on tokens the policy sampled. Prompts, user turns and padding stay in the layout and hold
garbage, so that a formula that reads them gives a wrong answer. `compact` drops them, which is what the TypeScript side receives.
"""

import numpy as np

BATCHES = 24


def float32(array):
    return np.asarray(array, dtype=np.float32).astype(np.float64)


def nine(value):
    """Nine significant digits: enough to give every float32 back exactly."""
    return float(f"{value:.9g}")


def make_batch(index):
    rng = np.random.default_rng([5, index])
    groups, size, longest, drift = int(rng.integers(2, 4)), int(rng.integers(2, 5)), 7, 0.3
    if 12 <= index <= 15:
        drift = 2.0  # most tokens are beyond a clip bound
    if 16 <= index <= 18:
        drift = 15.0  # beyond the ±20 clamp now and then
    if index == 22:
        longest = 1
    if index == 23:
        groups, size = 1, 8
    n = groups * size

    rows = []
    for _ in range(n):
        turn, mask = [], []
        for reply in range(int(rng.integers(1, 4)) if longest > 1 else 1):
            context = int(rng.integers(1, 4))
            length = int(rng.integers(1, longest + 1))
            turn += [-1] * context + [2 * reply + 1] * length
            mask += [0] * context + [1] * length
        rows.append((turn, mask))
    width = max(len(turn) for turn, _ in rows) + 1
    turn = np.full((n, width), -1)
    mask = np.zeros((n, width))
    for i, (t, m) in enumerate(rows):
        turn[i, : len(t)] = t
        mask[i, : len(m)] = m

    old = float32(-4 * rng.random((n, width)) - 0.01)
    logprobs = float32(old + drift * rng.standard_normal((n, width)))
    if index == 20:
        logprobs = old.copy()  # on policy: every ratio is 1
    rewards = np.array([nine(x) for x in rng.random(n)])
    if index % 3 == 1:
        rewards = np.round(rewards)  # pass or fail
    if index == 19:
        rewards = np.repeat(np.array([nine(x) for x in rng.random(groups)]), size)  # constant groups
    advantages = float32(rng.standard_normal((n, width)) * (rng.random((n, width)) > 0.1))
    if index == 21:
        advantages = -np.abs(advantages)
    return {
        "group": np.repeat(np.arange(groups), size),
        "turn": turn,
        "mask": mask,
        "old": old,
        "logprobs": logprobs,
        "sampled": float32(old + 0.8 * rng.standard_normal((n, width))),
        "ref": float32(old + 0.5 * rng.standard_normal((n, width))),
        "entropy": float32(3 * rng.random((n, width))),
        "oldValues": float32(rng.standard_normal((n, width))),
        "values": float32(rng.standard_normal((n, width))),
        "returns": float32(rng.standard_normal((n, width))),
        "advantages": advantages,
        "rewards": rewards,
        "breakdown": [{"correct": float(rng.integers(0, 2)), "style": nine(10 * rng.random())} for _ in range(n)],
        # A reward on every assistant turn, on some of them, or on none.
        "turnRewards": [
            {str(int(t)): nine(rng.standard_normal()) for t in np.unique(turn[i][mask[i] > 0]) if rng.random() < index % 3 / 2}
            for i in range(n)
        ],
        # V after the last token of conversations that a limit ended; the others came to an end of their own.
        "endValues": end_values(index, n),
        # What each reply answers: one of few states, the same for all first replies; some batches and some replies have none.
        "states": states_of(index, turn, mask),
        "counts": {"sequences": n, "tokens": int(mask.sum()), "groups": groups, "maxTokens": 32},
    }


def end_values(index, n):
    rng = np.random.default_rng([6, index])
    return [nine(x) if limit else None for x, limit in zip(rng.standard_normal(n), rng.random(n) < 0.5)]


def states_of(index, turn, mask):
    rng = np.random.default_rng([7, index])
    states = []
    for row, m in zip(turn, mask):
        turns = np.unique(row[m > 0])
        drawn = {str(int(t)): "start" if k == 0 else "abc"[rng.integers(3)] for k, t in enumerate(turns) if rng.random() < 0.8}
        states.append({} if index % 6 == 5 else drawn)
    return states


def compact_rows(batch, array):
    return [[nine(x) for x in np.asarray(row)[m > 0]] for row, m in zip(np.asarray(array), batch["mask"])]


PER_TOKEN = ["old", "logprobs", "sampled", "ref", "entropy", "oldValues", "values", "returns", "advantages"]


def compact(batch):
    arrays = {key: compact_rows(batch, batch[key]) for key in PER_TOKEN}
    sequences = []
    for i, m in enumerate(batch["mask"]):
        sequences.append(
            {
                "group": int(batch["group"][i]),
                "turn": [int(t) for t in batch["turn"][i][m > 0]],
                "reward": float(batch["rewards"][i]),
                "breakdown": batch["breakdown"][i],
                "turnRewards": batch["turnRewards"][i],
                **({"states": batch["states"][i]} if batch["states"][i] else {}),
                **({} if batch["endValues"][i] is None else {"endValue": batch["endValues"][i]}),
                **{key: arrays[key][i] for key in PER_TOKEN},
            }
        )
    return {"counts": batch["counts"], "sequences": sequences}

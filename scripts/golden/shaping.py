"""Reward shaping from its definition, on the rewards of a few steps of a run (numpy, float64)."""

import numpy as np


def normalised(history, step, how):
    if how == "none":
        return step
    over = np.concatenate(history) if how == "run" else step
    deviation = np.std(over, ddof=1) if len(over) > 1 else 0.0
    return (step - over.mean()) / (deviation + 1e-8 if deviation > 0 else 1.0)


def punished(length, limit, buffer):
    """0 until the buffer begins, then a straight line down to -1 at the limit."""
    return float(np.interp(length, [limit * (1 - buffer), limit], [0.0, -1.0]))


def shaping_case(rng, index, nine):
    options = {
        "normalise": ["none", "batch", "run"][index % 3],
        "clipLow": [None, -0.5][int(rng.integers(2))],
        "clipHigh": [None, 0.8][int(rng.integers(2))],
        "overlongPenalty": [0.0, 0.7][int(rng.integers(2))],
        "overlongBuffer": [0.2, 0.5][int(rng.integers(2))],
    }
    limit = 20
    steps, history = [], []
    for step in range(4):
        n = int(rng.integers(1, 6))
        rewards = np.array([nine(x) for x in 3 * rng.standard_normal(n) + 5])
        if index == 4 or step == 2:
            rewards = np.repeat(rewards[0], n)
        lengths = [int(x) for x in rng.integers(1, limit + 3, n)]
        history.append(rewards)
        low, high = options["clipLow"], options["clipHigh"]
        shaped = np.clip(normalised(history, rewards, options["normalise"]), -np.inf if low is None else low, np.inf if high is None else high)
        shaped = shaped + options["overlongPenalty"] * np.array([punished(x, limit, options["overlongBuffer"]) for x in lengths])
        steps.append({"rewards": rewards.tolist(), "lengths": lengths, "shaped": [nine(x) for x in shaped]})
    return {"options": {k: v for k, v in options.items() if v is not None}, "replyTokens": limit, "steps": steps}

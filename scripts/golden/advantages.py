"""Every advantage from its definition, on padded arrays with masks (numpy, float64)."""

import numpy as np

EPSILON = 1e-4


def unbiased(values):
    return np.std(values, ddof=1) if len(values) > 1 else 0.0


def centre(values, scale, batch_std):
    values = np.asarray(values, dtype=np.float64)
    if np.all(values == values[0]):
        return np.zeros_like(values)
    divisor = {"group": unbiased(values) + EPSILON, "batch": batch_std + EPSILON, "none": 1.0}[scale]
    return (values - values.mean()) / divisor


def in_groups(b, values, scale):
    out = np.zeros(len(values))
    for g in np.unique(b["group"]):
        member = b["group"] == g
        out[member] = centre(values[member], scale, unbiased(values))
    return out


def per_token(b, values):
    return np.repeat(np.asarray(values)[:, None], b["mask"].shape[1], axis=1)


def penalised(b, beta):
    return b["rewards"] - beta * ((b["old"] - b["ref"]) * b["mask"]).sum(1)


def group(b, o):
    return per_token(b, in_groups(b, penalised(b, o["beta"]), o["scale"])), None


def leave_one_out(b, o):
    r = penalised(b, o["beta"])
    out = np.zeros(len(r))
    for i, g in enumerate(b["group"]):
        others = [r[j] for j in range(len(r)) if b["group"][j] == g and j != i]
        out[i] = r[i] - np.mean(others)
    return per_token(b, out), None


def baseline(b, o):
    r = penalised(b, o["beta"])
    if o["baseline"] == "batch":
        r = r - r.mean()
    if o["baseline"] == "group":
        r = in_groups(b, r, "none")
    return per_token(b, r), None


def token_rewards(b, episode):
    """Turn rewards on the last sampled token of their turn, the episode's on the last sampled token of all."""
    out = np.zeros_like(b["old"])
    for i in range(len(out)):
        sampled = np.flatnonzero(b["mask"][i])
        for turn, reward in b["turnRewards"][i].items():
            out[i, np.flatnonzero(b["turn"][i] == int(turn))[-1]] += reward
        out[i, sampled[-1]] += episode[i]
    return out


def whiten(b, x):
    kept = x[b["mask"] > 0]
    if np.all(kept == kept[0]):
        return np.zeros_like(x)
    return (x - kept.mean()) / np.sqrt(np.var(kept, ddof=1) + 1e-8)


def reinforce_plus_plus(b, o):
    episode = in_groups(b, b["rewards"], "none") if o["baseline"] == "group" else b["rewards"]
    r = token_rewards(b, episode) - o["beta"] * (b["old"] - b["ref"])
    out = np.zeros_like(r)
    for i in range(len(r)):
        ahead = 0.0
        for t in reversed(range(r.shape[1])):
            if b["mask"][i, t]:  # a token that was not sampled is no step: nothing is discounted over it
                ahead = r[i, t] + o["gamma"] * ahead
                out[i, t] = ahead
    return whiten(b, out), None


def beyond(b, o):
    """V after the last token: 0, or with bootstrap the value there of conversations that a limit ended."""
    return [x if o["bootstrap"] and x is not None else 0.0 for x in b["endValues"]]


def masked_gae(b, r, values, gamma, lam, end):
    """Over all positions; where nothing was sampled the next value and the running sum are carried unchanged."""
    adv = np.zeros_like(r)
    for i in range(len(r)):
        next_value, running = end[i], 0.0
        for t in reversed(range(r.shape[1])):
            m = b["mask"][i, t]
            delta = r[i, t] + gamma * next_value - values[i, t]
            running = m * (delta + gamma * lam[i] * running) + (1 - m) * running
            next_value = m * values[i, t] + (1 - m) * next_value
            adv[i, t] = running
    return adv


def gae(b, o):
    r = token_rewards(b, b["rewards"]) - o["beta"] * (b["old"] - b["ref"])
    v, end = b["oldValues"], beyond(b, o)
    if o["level"] == "token":
        adv = masked_gae(b, r, v, o["gamma"], [o["lambda"]] * len(r), end)
        returns = adv + v
    else:
        adv, returns = np.zeros_like(r), np.zeros_like(r)
        for i in range(len(r)):
            turns = sorted({int(t) for t in b["turn"][i] if t >= 0})
            where = [np.flatnonzero(b["turn"][i] == t) for t in turns]
            rewards = [r[i, w].sum() for w in where]
            values = [v[i, w[0]] for w in where] + [end[i]]
            deltas = [rewards[k] + o["gamma"] * values[k + 1] - values[k] for k in range(len(turns))]
            for k, w in enumerate(where):
                a = sum((o["gamma"] * o["lambda"]) ** (j - k) * deltas[j] for j in range(k, len(turns)))
                adv[i, w], returns[i, w] = a, a + values[k]
    return (whiten(b, adv) if o["whiten"] else adv), returns


def n_step(b, o):
    r, v, end = token_rewards(b, b["rewards"]), b["oldValues"], beyond(b, o)
    adv = np.zeros_like(r)
    for i in range(len(r)):
        w = np.flatnonzero(b["mask"][i])
        for k, t in enumerate(w):
            n = min(o["nSteps"], len(w) - k)
            total = sum(o["gamma"] ** j * r[i, w[k + j]] for j in range(n))
            total += o["gamma"] ** n * (v[i, w[k + n]] if k + n < len(w) else end[i])
            adv[i, t] = total - v[i, t]
    return adv, adv + v


def length_adaptive(b, o):
    r = token_rewards(b, b["rewards"])
    lengths = b["mask"].sum(1)
    lam = np.maximum(o["floor"], 1 - 1 / (o["alpha"] * lengths))
    end = beyond(b, o)
    adv = masked_gae(b, r, b["oldValues"], o["gamma"], lam, end)
    zero = np.zeros_like(b["oldValues"])
    returns = masked_gae(b, r, zero, o["gamma"], np.ones(len(r)), end)  # λ = 1 without values: the discounted return
    return (whiten(b, adv) if o["whiten"] else adv), returns


def turn_credit(b, o):
    entries = []
    for i in range(len(b["rewards"])):
        turns = sorted({int(t) for t in b["turn"][i] if t >= 0})
        given = [b["turnRewards"][i].get(str(t), 0.0) for t in turns]
        for k, t in enumerate(turns):
            entries.append((i, k, t, b["rewards"][i] + sum(given[k:])))
    std = unbiased([e[3] for e in entries])
    adv = np.zeros_like(b["old"])
    for i, k, t, _ in entries:
        peers = [e for e in entries if b["group"][e[0]] == b["group"][i] and e[1] == k]
        ends = [b["rewards"][j] for j in range(len(b["rewards"])) if b["group"][j] == b["group"][i] and j != i]
        values = centre([e[3] for e in peers] + (ends if len(peers) == 1 else []), o["scale"], std)
        adv[i, b["turn"][i] == t] = values[[e[0] for e in peers].index(i)]
    return adv, None


def state_credit(b, o):
    """A_episode + ω·A_state, by walking over all pairs of replies of a group."""
    steps = []
    for i in range(len(b["rewards"])):
        turns = sorted({int(t) for t in b["turn"][i] if t >= 0})
        given = [b["turnRewards"][i].get(str(t), 0.0) for t in turns]
        given[-1] += b["rewards"][i]
        for k, t in enumerate(turns):
            later = sum(o["discount"] ** (j - k) * given[j] for j in range(k, len(turns)))
            steps.append((i, t, b["states"][i].get(str(t)), later))
    std = unbiased([step[3] for step in steps])
    adv = per_token(b, in_groups(b, b["rewards"], o["scale"]))
    for own in steps:
        i, t, state, _ = own
        mates = [s for s in steps if state is not None and s[2] == state and b["group"][s[0]] == b["group"][i]]
        if len(mates) > 1:
            adv[i, b["turn"][i] == t] += o["weight"] * centre([s[3] for s in mates], o["scale"], std)[mates.index(own)]
    return adv, None


def multi_reward(b, o):
    total = np.zeros(len(b["rewards"]))
    for part, weight in o["weights"].items():
        total += weight * in_groups(b, np.array([x[part] for x in b["breakdown"]]), "group")
    return per_token(b, centre(total, "batch", unbiased(total))), None


def entropy_quantile(b, o):
    threshold = np.quantile(b["entropy"][b["mask"] > 0], 1 - o["share"])
    return b["advantages"] * (b["entropy"] >= threshold), None


SCALES = ["group", "batch", "none"]

# name: (advantage, how options are drawn)
ADVANTAGES = {
    "group": (group, lambda rng: {"scale": SCALES[rng.integers(3)], "beta": [0, 0.05][rng.integers(2)]}),
    "leave-one-out": (leave_one_out, lambda rng: {"beta": [0, 0.05][rng.integers(2)]}),
    "baseline": (baseline, lambda rng: {"baseline": ["none", "batch", "group"][rng.integers(3)], "beta": [0, 0.05][rng.integers(2)]}),
    "reinforce-plus-plus": (
        reinforce_plus_plus,
        lambda rng: {"beta": [0, 0.01][rng.integers(2)], "gamma": [1, 0.95][rng.integers(2)], "baseline": ["none", "group"][rng.integers(2)]},
    ),
    "gae": (
        gae,
        lambda rng: {
            "level": ["token", "turn"][rng.integers(2)],
            "gamma": [1, 0.99, 0.9][rng.integers(3)],
            "lambda": [0.95, 0.5, 1, 0][rng.integers(4)],
            "beta": [0, 0.05][rng.integers(2)],
            "whiten": bool(rng.integers(2)),
            "bootstrap": bool(rng.integers(2)),
        },
    ),
    "n-step": (n_step, lambda rng: {"nSteps": int(rng.integers(1, 6)), "gamma": [1, 0.9][rng.integers(2)], "bootstrap": bool(rng.integers(2))}),
    "length-adaptive-gae": (
        length_adaptive,
        lambda rng: {
            "alpha": [0.05, 0.5, 2][rng.integers(3)],
            "floor": [0, 0.5, 0.99][rng.integers(3)],
            "gamma": [1, 0.98][rng.integers(2)],
            "whiten": bool(rng.integers(2)),
            "bootstrap": bool(rng.integers(2)),
        },
    ),
    "turn-credit": (turn_credit, lambda rng: {"scale": SCALES[rng.integers(3)]}),
    "state-credit": (
        state_credit,
        lambda rng: {"scale": SCALES[rng.integers(3)], "weight": [1, 0.5, 2][rng.integers(3)], "discount": [0.95, 1, 0.5][rng.integers(3)]},
    ),
    "multi-reward": (
        multi_reward,
        lambda rng: {"weights": {"correct": 1, "style": round(float(rng.uniform(0.1, 2)), 3)}},
    ),
    "entropy-quantile": (entropy_quantile, lambda rng: {"share": [0.2, 0.5, 0.03, 1][rng.integers(4)]}),
}

"""Every loss from its formula, on padded tensors with masks; gradients by autograd. Written apart from the TypeScript implementation."""

import torch
import torch.nn.functional as F


def clamp20(x):
    return x.clamp(-20, 20)


def clipped(ratio, a, o):
    """-min(ρA, clip(ρ)A), capped at -cA for A < 0 under dual clip; and which entries are at a bound."""
    low, high, c = 1 - o["epsilonLow"], 1 + o["epsilonHigh"], o.get("dualClip")
    loss = -torch.minimum(ratio * a, ratio.clamp(low, high) * a)
    bound = ((a > 0) & (ratio > high)) | ((a < 0) & (ratio < low))
    if c is not None:
        loss = torch.where(a < 0, torch.minimum(loss, -c * a), loss)
        bound = bound | ((a < 0) & (ratio > c))
    return loss, bound


def kl_penalty(logp, ref, kind):
    k = clamp20(logp - ref)
    return {"k1": k, "k2": 0.5 * k**2, "k3": torch.exp(-k) + k - 1}[kind]


def mismatch(b, o):
    """[sequences, positions] constant weights, and one per sequence from the mean and from the sum."""
    c = o.get("correction")
    if c is None:
        return torch.ones_like(b["old"]), torch.ones(len(b["old"])).double(), torch.ones(len(b["old"])).double()

    def bound(w):
        return w.clamp(max=c["cap"]) if c["mode"] == "truncate" else torch.where((w >= c["low"]) & (w <= c["high"]), w, torch.zeros_like(w))

    gap = (b["old"] - b["sampled"]) * b["mask"]
    total, mean = gap.sum(1), gap.sum(1) / b["mask"].sum(1)
    geometric = torch.exp(clamp20(mean))
    keep = torch.ones_like(geometric)
    if c["sequenceMask"]:
        keep = ((geometric >= c["low"]) & (geometric <= c["high"])).double()
    return (
        bound(torch.exp(clamp20(gap))) * keep[:, None],
        bound(geometric) * keep,
        bound(torch.exp(clamp20(total))) * keep,
    )


def sequence_mean(b, x):
    return ((x * b["mask"]).sum(1) / b["mask"].sum(1)).mean()


def token_mean(b, x):
    return (x * b["mask"]).sum() / b["mask"].sum()


def sequence_sum(b, x):
    return (x * b["mask"]).sum(1).mean()


def fixed_length(b, x):
    return (x * b["mask"]).sum() / (len(x) * b["counts"]["maxTokens"])


def group_mean(b, x):
    parts = [(x * b["mask"])[b["group"] == g].sum() / b["mask"][b["group"] == g].sum() for g in b["group"].unique()]
    return torch.stack(parts).mean()


def extras(b, o, aggregate):
    loss = 0.0
    if o.get("beta", 0) > 0:
        loss = loss + o["beta"] * aggregate(b, kl_penalty(b["logprobs"], b["ref"], o.get("klEstimator", "k3")))
    if o.get("entropyCoefficient", 0) > 0:
        loss = loss - o["entropyCoefficient"] * aggregate(b, b["entropy"])
    return loss


def token_surrogate(aggregate):
    def loss(b, o):
        ratio = torch.exp(clamp20(b["logprobs"] - b["old"]))
        per_token, bound = clipped(ratio, b["advantages"], o)
        metrics = {"clipFraction": token_mean(b, bound.double()), "ratio": token_mean(b, ratio)}
        return aggregate(b, per_token * mismatch(b, o)[0]) + extras(b, o, aggregate), metrics

    return loss


def sequence_advantage(b):
    return (b["advantages"] * b["mask"]).sum(1) / b["mask"].sum(1)


def gspo(b, o):
    length = b["mask"].sum(1)
    s = torch.exp(clamp20(((b["logprobs"] - b["old"]) * b["mask"]).sum(1) / length))
    per_sequence, bound = clipped(s, sequence_advantage(b), o)
    metrics = {"clipFraction": bound.double().mean(), "ratio": s.mean()}
    return (per_sequence * mismatch(b, o)[1]).mean() + extras(b, o, sequence_mean), metrics


def gspo_token(b, o):
    length = b["mask"].sum(1)
    log_s = ((b["logprobs"] - b["old"]) * b["mask"]).sum(1) / length
    log_s_token = b["logprobs"] - b["logprobs"].detach() + log_s.detach()[:, None]
    ratio = torch.exp(clamp20(log_s_token))
    per_token, bound = clipped(ratio, b["advantages"], o)
    metrics = {"clipFraction": token_mean(b, bound.double()), "ratio": token_mean(b, ratio)}
    return sequence_mean(b, per_token * mismatch(b, o)[0]) + extras(b, o, sequence_mean), metrics


def gepo(b, o):
    length = b["mask"].sum(1)
    log_p = (b["logprobs"] * b["mask"]).sum(1) / length
    q = torch.exp((b["old"] * b["mask"]).sum(1) / length)
    expectation = torch.stack([(q[b["group"] == g] ** 2).sum() / q[b["group"] == g].sum() for g in b["group"]])
    w = torch.exp(clamp20(log_p - torch.log(expectation)))
    per_sequence, bound = clipped(w, sequence_advantage(b), o)
    metrics = {"clipFraction": bound.double().mean(), "ratio": w.mean()}
    return (per_sequence * mismatch(b, o)[1]).mean() + extras(b, o, sequence_mean), metrics


def cispo(b, o):
    ratio = torch.exp(clamp20(b["logprobs"] - b["old"])).detach()
    per_token = -ratio.clamp(0, o["ratioCap"]) * b["advantages"] * b["logprobs"]
    metrics = {"clipFraction": token_mean(b, (ratio > o["ratioCap"]).double())}
    return token_mean(b, per_token * mismatch(b, o)[0]) + extras(b, o, token_mean), metrics


def sapo(b, o):
    ratio = torch.exp(clamp20(b["logprobs"] - b["old"]))
    positive = (b["advantages"] > 0).double()
    tau = positive * o["tauPositive"] + (1 - positive) * o["tauNegative"]
    per_token = -(4 / tau) * torch.sigmoid(tau * (ratio - 1)) * b["advantages"]
    return sequence_mean(b, per_token * mismatch(b, o)[0]) + extras(b, o, sequence_mean), {"ratio": token_mean(b, ratio)}


def gmpo(b, o):
    """The objective as the paper writes it, by the product of one-sided bounded ratios, each to the power of 1/|y|."""
    a = sequence_advantage(b)
    log_ratio = clamp20(b["logprobs"] - b["old"])
    sign = torch.sign(a)[:, None]
    bounded = torch.minimum(sign * log_ratio, sign * log_ratio.clamp(-o["epsilonLow"], o["epsilonHigh"])) * sign
    bounded = torch.where(sign == 0, log_ratio, bounded)
    roots = torch.exp(bounded / b["mask"].sum(1)[:, None])
    geometric = torch.where(b["mask"] > 0, roots, torch.ones_like(roots)).prod(1)
    metrics = {"ratio": geometric.mean(), "clipFraction": token_mean(b, (bounded != log_ratio).double())}
    return (-geometric * a * mismatch(b, o)[1]).mean() + extras(b, o, sequence_mean), metrics


def luspo(b, o):
    length = b["mask"].sum(1)
    s = torch.exp(clamp20(((b["logprobs"] - b["old"]) * b["mask"]).sum(1) / length))
    per_sequence, bound = clipped(s, sequence_advantage(b), o)
    metrics = {"clipFraction": bound.double().mean(), "ratio": s.mean()}
    return (per_sequence * mismatch(b, o)[1] * length).mean() + extras(b, o, sequence_sum), metrics


def off_policy_mask(b, o):
    """GRPO where tokens of negative advantage are left out of sequences that the policy has left behind."""
    behind = ((b["sampled"] - b["logprobs"].detach()) * b["mask"]).sum(1) / b["mask"].sum(1) > o["threshold"]
    keep = ~((b["advantages"] < 0) & behind[:, None])
    ratio = torch.exp(clamp20(b["logprobs"] - b["old"]))
    per_token, _ = clipped(ratio, b["advantages"], o)
    return sequence_mean(b, per_token * keep * mismatch(b, o)[0]) + extras(b, o, sequence_mean), {}


def value_loss(b, clip):
    error = (b["values"] - b["returns"]) ** 2
    if clip is not None:
        near = torch.maximum(torch.minimum(b["values"], b["oldValues"] + clip), b["oldValues"] - clip)
        error = torch.maximum(error, (near - b["returns"]) ** 2)
    return 0.5 * error


def ppo(b, o):
    policy, metrics = token_surrogate(token_mean)(b, o)
    value = token_mean(b, value_loss(b, o["valueClip"]))
    keep = b["mask"] > 0
    r, e = b["returns"][keep], (b["values"] - b["returns"])[keep].detach()
    metrics["valueLoss"] = value.detach()
    metrics["explainedVariance"] = 1 - e.var(unbiased=False) / r.var(unbiased=False)
    return policy + o["valueCoefficient"] * value, metrics


def vapo(b, o):
    loss, metrics = ppo(b, o)
    positive = (b["rewards"] >= o["successThreshold"]).double()[:, None] * b["mask"]
    if positive.sum() > 0:
        loss = loss + o["positiveCoefficient"] * -(b["logprobs"] * positive).sum() / positive.sum()
    return loss, metrics


def a2c(b, o):
    policy = token_mean(b, -b["logprobs"] * b["advantages"] * mismatch(b, o)[0])
    value = token_mean(b, value_loss(b, None))
    return policy + o["valueCoefficient"] * value + extras(b, o, token_mean), {"valueLoss": value.detach()}


def trpo(b, o):
    return token_mean(b, -torch.exp(clamp20(b["logprobs"] - b["old"])) * b["advantages"]), {}


def trpo_kl(b, o):
    log_ratio = clamp20(b["logprobs"] - b["old"])
    return token_mean(b, torch.exp(log_ratio) - 1 - log_ratio), {}


def reinforce(b, o):
    return sequence_sum(b, -b["logprobs"] * b["advantages"] * mismatch(b, o)[0]) + extras(b, o, sequence_sum), {}


def rloo(b, o):
    s = torch.exp(clamp20(((b["logprobs"] - b["old"]) * b["mask"]).sum(1)))
    a = sequence_advantage(b)
    per_sequence = -s * a
    if "epsilonLow" in o:
        per_sequence = clipped(s, a, o)[0]
    return (per_sequence * mismatch(b, o)[2]).mean() + extras(b, o, sequence_sum), {"ratio": s.mean()}


def sft(b, o):
    return token_mean(b, -b["logprobs"]), {}


def clip_options(rng, low=0.2, high=0.2):
    return {
        "epsilonLow": low if rng.random() < 0.5 else round(float(rng.uniform(0.05, 0.4)), 3),
        "epsilonHigh": high if rng.random() < 0.5 else round(float(rng.uniform(0.05, 0.4)), 3),
        "dualClip": 3 if rng.random() < 0.4 else None,
        **penalty_options(rng),
    }


def small_clip_options(rng):
    return {"epsilonLow": 3e-4, "epsilonHigh": 4e-4, **penalty_options(rng)} if rng.random() < 0.5 else clip_options(rng)


def penalty_options(rng):
    o = {}
    if rng.random() < 0.5:
        o |= {"beta": round(float(rng.uniform(0.01, 0.2)), 3), "klEstimator": ["k1", "k2", "k3"][rng.integers(3)]}
    if rng.random() < 0.3:
        o["entropyCoefficient"] = 0.01
    if rng.random() < 0.3:
        o["correction"] = {
            "mode": ["truncate", "mask"][rng.integers(2)],
            "cap": 2,
            "low": 0.5,
            "high": 5,
            "sequenceMask": bool(rng.integers(2)),
        }
    return o


def value_options(rng):
    return {"valueCoefficient": round(float(rng.uniform(0.05, 1)), 3), "valueClip": 0.2 if rng.random() < 0.7 else None}


def no_kl(options):
    return {k: v for k, v in options.items() if k not in ("beta", "klEstimator")}


# name: (loss, how options are drawn)
LOSSES = {
    "grpo": (token_surrogate(sequence_mean), clip_options),
    "dr-grpo": (token_surrogate(fixed_length), clip_options),
    "bnpo": (token_surrogate(group_mean), clip_options),
    "dapo": (token_surrogate(token_mean), lambda rng: clip_options(rng, 0.2, 0.28)),
    "gspo": (gspo, small_clip_options),
    "gspo-token": (gspo_token, small_clip_options),
    "gepo": (gepo, clip_options),
    "cispo": (cispo, lambda rng: {"ratioCap": [5, 1.2][rng.integers(2)], **penalty_options(rng)}),
    "sapo": (sapo, lambda rng: {"tauPositive": 1, "tauNegative": [1.05, 3][rng.integers(2)], **penalty_options(rng)}),
    "gmpo": (gmpo, lambda rng: {"epsilonLow": 0.4, "epsilonHigh": [0.4, 0.1][rng.integers(2)], **penalty_options(rng)}),
    "luspo": (luspo, lambda rng: small_clip_options(rng) | ({"epsilonLow": 2e-3, "epsilonHigh": 2.5e-3} if rng.random() < 0.3 else {})),
    "off-policy-mask": (off_policy_mask, lambda rng: {"threshold": [0.05, 0.5][rng.integers(2)], **clip_options(rng)}),
    "ppo": (ppo, lambda rng: clip_options(rng) | value_options(rng)),
    "vapo": (
        vapo,
        lambda rng: clip_options(rng, 0.2, 0.28) | value_options(rng) | {"positiveCoefficient": 0.1, "successThreshold": 0.5},
    ),
    "a2c": (a2c, lambda rng: no_kl(penalty_options(rng)) | {"valueCoefficient": 0.5, "entropyCoefficient": 0.01}),
    "trpo": (trpo, lambda rng: {}),
    "trpo-kl": (trpo_kl, lambda rng: {}),
    "reinforce": (reinforce, penalty_options),
    "rloo": (rloo, lambda rng: penalty_options(rng) | ({"epsilonLow": 0.2, "epsilonHigh": 0.2} if rng.random() < 0.5 else {})),
    "reinforce++": (token_surrogate(token_mean), lambda rng: no_kl(clip_options(rng))),
    "sft": (sft, lambda rng: {}),
}


def margin(chosen, rejected, over):
    return over(chosen["logp"] - chosen["ref"]) - over(rejected["logp"] - rejected["ref"])


def dpo(chosen, rejected, o):
    return -F.logsigmoid(o["beta"] * margin(chosen, rejected, torch.sum))


def ipo(chosen, rejected, o):
    return (margin(chosen, rejected, torch.mean) - 1 / (2 * o["beta"])) ** 2


def conservative_dpo(chosen, rejected, o):
    """The cross-entropy against a label that is right with probability 1 - e."""
    logit = o["beta"] * margin(chosen, rejected, torch.sum)
    return F.binary_cross_entropy_with_logits(logit, torch.full_like(logit, 1 - o["labelSmoothing"]))


def robust(chosen, rejected, o):
    """Both labels' DPO losses, combined so that a flip with probability e leaves the mean unbiased."""
    logit, e = o["beta"] * margin(chosen, rejected, torch.sum), o["labelSmoothing"]
    kept, flipped = F.softplus(-logit), F.softplus(logit)
    return ((1 - e) * kept - e * flipped) / (1 - 2 * e)


def hinge(chosen, rejected, o):
    return F.relu(1 - o["beta"] * margin(chosen, rejected, torch.sum))


def orpo(chosen, rejected, o):
    better, worse = chosen["logp"].mean(), rejected["logp"].mean()
    ratio = torch.logit(torch.exp(better)) - torch.logit(torch.exp(worse))
    return -better + o["beta"] * F.softplus(-ratio)


def kto(examples, mismatched, o):
    """Mean of w_y - v(x, y), the paper's loss with its value function v."""
    reward = torch.stack([(e["logp"] - e["ref"]).sum() for e in examples])
    kl = torch.stack([(m["logp"] - m["ref"]).sum() for m in mismatched]).mean().clamp(min=0).detach()
    good = torch.tensor([e["desirable"] for e in examples])
    weight = torch.where(good, o["desirableWeight"], o["undesirableWeight"]).double()
    value = weight * torch.sigmoid(o["beta"] * torch.where(good, reward - kl, kl - reward))
    return (weight - value).mean(), kl


def no_more(rng):
    return {}


def smoothing(rng):
    return {"labelSmoothing": [0.05, 0.1, 0.3][rng.integers(3)]}


# name: (loss of a pair, how options beside beta are drawn)
PREFERENCES = {
    "dpo": (dpo, no_more),
    "ipo": (ipo, no_more),
    "conservative-dpo": (conservative_dpo, smoothing),
    "robust": (robust, smoothing),
    "hinge": (hinge, no_more),
    "orpo": (orpo, no_more),
}

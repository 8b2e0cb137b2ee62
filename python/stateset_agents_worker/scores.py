"""Log-probs and entropy of tokens from hidden states, by pieces of rows: the logits of a pass never exist whole."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

#: Logits that exist at a time. Wide enough to keep a GPU busy.
MOST_LOGITS = {"cuda": 1 << 28, "cpu": 1 << 22}


@dataclass(frozen=True)
class Wanted:
    """Which rows of the hidden states to score, the tokens they are asked for, and how."""

    rows: Tensor
    tokens: Tensor
    temperature: float
    entropy: bool
    #: Keep the derivatives of the logits, in the weights' own precision, instead of computing the logits again in backward;
    #: not with the entropy, whose derivatives need the logits themselves.
    keep: bool = False


def score(hidden: Tensor, weight: Tensor, bias: Tensor | None, wanted: Wanted) -> tuple[Tensor, Tensor]:
    """[rows, size] and the head's [vocabulary, size] → log-probs and entropies, f32; the entropies are empty where not wanted."""
    if hidden.requires_grad and torch.is_grad_enabled():
        if weight.requires_grad or (bias is not None and bias.requires_grad):
            return _Scores.apply(hidden, weight, bias, wanted)
        return _FrozenScores.apply(hidden, weight, bias, wanted)
    picked = hidden.detach()[wanted.rows]
    parts = [_stats(_logits(picked[at], weight, bias, wanted), wanted.tokens[at], wanted.entropy) for at in _pieces(wanted, weight)]
    return _joined(parts, hidden)


def _pieces(wanted: Wanted, weight: Tensor) -> list[slice]:
    rows = max(1, MOST_LOGITS[weight.device.type] // weight.shape[0])
    # Equal pieces, and a multiple of 8 rows where that can be: the tensor cores' step.
    count = max(1, -(-len(wanted.rows) // rows))
    size = max(1, -(-len(wanted.rows) // count))
    size = size if size < 8 else -(-size // 8) * 8
    return [slice(at, at + size) for at in range(0, len(wanted.rows), size)]


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor | None, wanted: Wanted) -> Tensor:
    """Over the temperature, in f32 whatever the weights are in."""
    logits = multiply(hidden, weight.t())
    if bias is not None:
        logits += bias
    return logits if wanted.temperature == 1 else logits.div_(wanted.temperature)


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """The product in f32. On CUDA 16-bit factors are multiplied as they are; elsewhere there is no such product."""
    if a.dtype == torch.float32:
        return a @ b
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


def _stats(logits: Tensor, tokens: Tensor, entropy: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Per row: log-prob of its token, entropy (empty where not wanted), log Σ e^z."""
    log_sum = torch.logsumexp(logits, 1)
    picked = logits.gather(1, tokens[:, None])[:, 0] - log_sum
    if not entropy:
        return picked, logits.new_empty(0), log_sum
    log_p = logits - log_sum[:, None]
    # A logit of -∞ has no part in it.
    return picked, torch.nan_to_num(torch.exp(log_p) * log_p, nan=0.0).sum(1).neg_(), log_sum


def _slopes(logits: Tensor, tokens: Tensor, log_sum: Tensor) -> Tensor:
    """d log-prob / d logit = δ − p. The difference is taken in f32: rounded first, 1 − p of a likely token would be lost."""
    slopes = torch.exp(logits - log_sum[:, None]).neg_()
    return slopes.scatter_add_(1, tokens[:, None], torch.ones_like(log_sum)[:, None])


def _entropy_slopes(logits: Tensor, log_sum: Tensor, entropy: Tensor) -> Tensor:
    """d entropy / d logit = −p·(ln p + H)."""
    log_p = logits - log_sum[:, None]
    return torch.nan_to_num(torch.exp(log_p) * (log_p + entropy[:, None]), nan=0.0).neg_()


def _joined(parts: list[tuple[Tensor, Tensor, Tensor]], hidden: Tensor) -> tuple[Tensor, Tensor]:
    none = torch.empty(0, dtype=torch.float32, device=hidden.device)
    return torch.cat([none, *(part[0] for part in parts)]), torch.cat([none, *(part[1] for part in parts)])


def _spread(rows: Tensor, slopes: list[Tensor], hidden: Tensor) -> Tensor:
    """Several tokens may be foretold by one row, so they are added up in f32."""
    spread = torch.zeros(hidden.shape, dtype=torch.float32, device=hidden.device)
    if slopes:
        spread.index_add_(0, rows, torch.cat(slopes))
    return spread.to(hidden.dtype)


class _FrozenScores(torch.autograd.Function):
    """
    For a head that is not trained: what backward multiplies the derivatives with is a row of `size` numbers per token, and is computed
    while the logits are there. Backward then never sees the vocabulary.
    """

    @staticmethod
    def forward(ctx, hidden: Tensor, weight: Tensor, bias: Tensor | None, wanted: Wanted) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]
        picked = hidden[wanted.rows]
        parts, along, spreading = [], [], []
        for at in _pieces(wanted, weight):
            logits = _logits(picked[at], weight, bias, wanted)
            part = _stats(logits, wanted.tokens[at], wanted.entropy)
            parts.append(part)
            if wanted.entropy:
                spreading.append(_entropy_slopes(logits, part[2], part[1]).to(weight.dtype) @ weight)
            along.append(_slopes(logits, wanted.tokens[at], part[2]).to(weight.dtype) @ weight)
            del logits
        ctx.wanted = wanted
        ctx.shape_of = hidden.shape, hidden.dtype, hidden.device
        ctx.save_for_backward(*along, *spreading)
        return _joined(parts, hidden)

    @staticmethod
    def backward(ctx, logprobs: Tensor, entropy: Tensor) -> tuple[Tensor, None, None, None]:  # type: ignore[no-untyped-def]
        wanted: Wanted = ctx.wanted
        saved = ctx.saved_tensors
        shape, dtype, device = ctx.shape_of
        spread = torch.zeros(shape, dtype=torch.float32, device=device)
        if saved:
            count = len(saved) // 2 if wanted.entropy else len(saved)
            slopes = torch.cat(saved[:count]) * (logprobs / wanted.temperature)[:, None]
            if wanted.entropy:
                slopes = slopes + torch.cat(saved[count:]) * (entropy / wanted.temperature)[:, None]
            spread.index_add_(0, wanted.rows, slopes.float())
        return spread.to(dtype), None, None, None


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden: Tensor, weight: Tensor, bias: Tensor | None, wanted: Wanted) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]
        picked = hidden[wanted.rows]
        parts, kept = [], []
        for at in _pieces(wanted, weight):
            logits = _logits(picked[at], weight, bias, wanted)
            parts.append(_stats(logits, wanted.tokens[at], wanted.entropy))
            if wanted.keep and not wanted.entropy:
                kept.append(_slopes(logits, wanted.tokens[at], parts[-1][2]).to(weight.dtype))
            del logits
        ctx.wanted, ctx.parts = wanted, parts
        ctx.save_for_backward(hidden, weight, bias, *kept)
        return _joined(parts, hidden)

    @staticmethod
    def backward(ctx, logprobs: Tensor, entropy: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None]:  # type: ignore[no-untyped-def]
        wanted: Wanted = ctx.wanted
        hidden, weight, bias, *kept = ctx.saved_tensors
        picked = hidden[wanted.rows]
        of_weight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
        of_bias = None if bias is None else torch.zeros(bias.shape, dtype=torch.float32, device=weight.device)
        of_hidden = []
        for number, at in enumerate(_pieces(wanted, weight)):
            slopes = _of_logits(ctx.parts[number], kept[number] if kept else None, at, picked[at], weight, bias, wanted, logprobs, entropy)
            if of_bias is not None:
                of_bias += slopes.sum(0)
            slopes = slopes.to(weight.dtype)
            of_hidden.append(multiply(slopes, weight))
            of_weight += multiply(slopes.t(), picked[at])
        spread = _spread(wanted.rows, of_hidden, hidden)
        return spread, of_weight.to(weight.dtype), None if of_bias is None else of_bias.to(weight.dtype), None


def _of_logits(
    part: tuple[Tensor, Tensor, Tensor],
    kept: Tensor | None,
    at: slice,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    wanted: Wanted,
    logprobs: Tensor,
    entropy: Tensor,
) -> Tensor:
    """The derivatives of a piece's logits before the temperature, in f32 or in the precision in which they were kept."""
    g = (logprobs[at] / wanted.temperature)[:, None]
    if kept is not None:
        return kept * g.to(kept.dtype)
    logits = _logits(hidden, weight, bias, wanted)
    slopes = _slopes(logits, wanted.tokens[at], part[2]).mul_(g)
    if wanted.entropy:
        slopes += _entropy_slopes(logits, part[2], part[1]).mul_((entropy[at] / wanted.temperature)[:, None])
    return slopes

"""Log-probs and entropy of tokens from hidden states, by pieces of rows: the logits of a pass never exist whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

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
    #: Keep the derivatives of the logits, in the weights' own precision, instead of computing the logits again in backward.
    keep: bool = False


def score(hidden: Tensor, weight: Tensor, bias: Tensor | None, wanted: Wanted) -> tuple[Tensor, Tensor]:
    """[rows, size] and the head's [vocabulary, size] → log-probs and entropies, f32; the entropies are empty where not wanted."""
    if hidden.requires_grad and torch.is_grad_enabled():
        return _Scores.apply(hidden, weight, bias, wanted)
    picked = hidden.detach()[wanted.rows]
    parts = [_stats(_logits(picked[at], weight, bias), wanted.tokens[at], wanted.temperature) for at in _pieces(wanted, weight)]
    return _joined(parts, wanted, hidden)


def _pieces(wanted: Wanted, weight: Tensor) -> list[slice]:
    rows = max(1, MOST_LOGITS[weight.device.type] // weight.shape[0])
    # Equal pieces, and a multiple of 8 rows where that can be: the tensor cores' step.
    count = max(1, -(-len(wanted.rows) // rows))
    size = max(1, -(-len(wanted.rows) // count))
    size = size if size < 8 else -(-size // 8) * 8
    return [slice(at, at + size) for at in range(0, len(wanted.rows), size)]


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Before the temperature, in f32 whatever the weights are in."""
    logits = multiply(hidden, weight.t())
    return logits if bias is None else logits.add_(bias)


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """The product in f32. On CUDA 16-bit factors are multiplied as they are; elsewhere there is no such product."""
    if a.dtype == torch.float32:
        return a @ b
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


def logits_divisor(config: Any) -> float:
    """What a model divides its logits by before anybody sees them: Granite's do."""
    return float(getattr(config.get_text_config(), "logits_scaling", None) or 1.0)


def fused(function: Callable[..., Any]) -> Callable[..., Any]:
    """On CUDA a sweep over logits is what it costs to read them: one kernel for all that is done to a number, not one for each."""
    compiled = cache(lambda: torch.compile(function))
    return lambda logits, *rest: (compiled() if logits.is_cuda else function)(logits, *rest)


@fused
def _stats(logits: Tensor, tokens: Tensor, temperature: float) -> tuple[Tensor, Tensor, Tensor]:
    """Per row: log-prob of its token, entropy, log Σ e^z."""
    z = logits / temperature
    top = z.amax(1, keepdim=True)
    below = z - top
    e = below.exp()
    total = e.sum(1)
    log_total = total.log()
    log_sum = top[:, 0] + log_total
    # A logit of -∞ has no part in it.
    entropy = log_total - torch.where(e > 0, e * below, 0.0).sum(1) / total
    return z.gather(1, tokens[:, None])[:, 0] - log_sum, entropy, log_sum


@fused
def _slopes(logits: Tensor, tokens: Tensor, temperature: float, log_sum: Tensor, like: Tensor) -> Tensor:
    """d log-prob / d z = δ − p. The difference is taken in f32: rounded first, 1 − p of a likely token would be lost."""
    p = (logits / temperature - log_sum[:, None]).exp()
    chosen = torch.arange(logits.shape[1], device=logits.device)[None, :] == tokens[:, None]
    return torch.where(chosen, 1 - p, -p).to(like.dtype)


@fused
def _both_slopes(
    logits: Tensor, tokens: Tensor, temperature: float, log_sum: Tensor, like: Tensor, entropy: Tensor, g: Tensor, h: Tensor
) -> Tensor:
    """g·(δ − p) − h·p·(ln p + H): of log-probs and entropies together."""
    log_p = logits / temperature - log_sum[:, None]
    p = log_p.exp()
    chosen = torch.arange(logits.shape[1], device=logits.device)[None, :] == tokens[:, None]
    along = torch.where(chosen, 1 - p, -p) * g[:, None]
    return (along - torch.where(p > 0, p * (log_p + entropy[:, None]), 0.0) * h[:, None]).to(like.dtype)


def _joined(parts: list[tuple[Tensor, Tensor, Tensor]], wanted: Wanted, hidden: Tensor) -> tuple[Tensor, Tensor]:
    none = torch.empty(0, dtype=torch.float32, device=hidden.device)
    return torch.cat([none, *(part[0] for part in parts)]), torch.cat([none, *(part[1] for part in parts if wanted.entropy)])


class _Scores(torch.autograd.Function):
    """
    What backward needs of log-probs is made while the logits are there: for a head that is not trained, a row of `size` numbers per
    token; for one that is, the slopes themselves, where there is room. Derivatives of the entropy, which few losses have, cost the
    logits a second time.
    """

    @staticmethod
    def forward(ctx, hidden: Tensor, weight: Tensor, bias: Tensor | None, wanted: Wanted) -> tuple[Tensor, Tensor]:  # type: ignore[no-untyped-def]
        frozen = not (weight.requires_grad or (bias is not None and bias.requires_grad))
        picked = hidden[wanted.rows]
        parts, kept = [], []
        for at in _pieces(wanted, weight):
            logits = _logits(picked[at], weight, bias)
            parts.append(_stats(logits, wanted.tokens[at], wanted.temperature))
            if frozen or wanted.keep:
                slopes = _slopes(logits, wanted.tokens[at], wanted.temperature, parts[-1][2], weight)
                kept.append(slopes @ weight if frozen else slopes)
            del logits
        ctx.wanted, ctx.parts, ctx.frozen = wanted, parts, frozen
        ctx.save_for_backward(hidden, weight, bias, *kept)
        ctx.set_materialize_grads(False)
        return _joined(parts, wanted, hidden)

    @staticmethod
    def backward(ctx, logprobs: Tensor | None, entropy: Tensor | None) -> tuple[Tensor | None, Tensor | None, Tensor | None, None]:  # type: ignore[no-untyped-def]
        wanted: Wanted = ctx.wanted
        if not wanted.entropy:
            entropy = None
        if logprobs is None and entropy is None:
            return None, None, None, None
        hidden, weight, bias, *kept = ctx.saved_tensors
        picked = hidden[wanted.rows]
        of_hidden = torch.zeros(hidden.shape, dtype=torch.float32, device=hidden.device)
        of_weight = None if ctx.frozen else torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
        of_bias = None if ctx.frozen or bias is None else torch.zeros(bias.shape, dtype=torch.float32, device=weight.device)
        for number, at in enumerate(_pieces(wanted, weight)):
            rows, tokens = picked[at], wanted.tokens[at]
            _, spread, log_sum = ctx.parts[number]
            g = torch.zeros_like(log_sum) if logprobs is None else logprobs[at] / wanted.temperature
            if entropy is not None:
                h = entropy[at] / wanted.temperature
                logits = _logits(rows, weight, bias)
                slopes = _both_slopes(logits, tokens, wanted.temperature, log_sum, weight, spread, g, h)
                g = torch.ones_like(g)
            elif ctx.frozen:
                of_hidden.index_add_(0, wanted.rows[at], kept[number].float() * g[:, None])
                continue
            else:
                logits = None if kept else _logits(rows, weight, bias)
                slopes = kept[number] if kept else _slopes(logits, tokens, wanted.temperature, log_sum, weight)
            # Rows are scaled outside of the products, which are the larger by the vocabulary. Several tokens may be foretold by
            # one row, so they are added up in f32.
            of_hidden.index_add_(0, wanted.rows[at], multiply(slopes, weight) * g[:, None])
            if of_weight is not None:
                of_weight += multiply(slopes.t(), (rows * g[:, None]).to(weight.dtype))
            if of_bias is not None:
                of_bias += slopes.t().float() @ g
        return (
            of_hidden.to(hidden.dtype),
            None if of_weight is None else of_weight.to(weight.dtype),
            None if of_bias is None else of_bias.to(weight.dtype),
            None,
        )

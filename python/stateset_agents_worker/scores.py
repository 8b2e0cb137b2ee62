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
    #: Keep the derivatives of the logits, in the weights' own precision, instead of computing the logits again in backward;
    #: not with the entropy, whose derivatives need the logits themselves.
    keep: bool = False


def score(hidden: Tensor, weight: Tensor, bias: Tensor | None, wanted: Wanted) -> tuple[Tensor, Tensor]:
    """[rows, size] and the head's [vocabulary, size] → log-probs and entropies, f32; the entropies are empty where not wanted."""
    if hidden.requires_grad and torch.is_grad_enabled():
        if weight.requires_grad or (bias is not None and bias.requires_grad):
            return _Scores.apply(hidden, weight, bias, wanted)
        return _FrozenScores.apply(hidden, weight, bias, wanted)
    picked, piece = hidden.detach()[wanted.rows], _Piece(hidden, weight, bias, wanted)
    return _joined([piece.stats(picked[at], at) for at in _pieces(wanted, weight)], hidden)


def _pieces(wanted: Wanted, weight: Tensor) -> list[slice]:
    rows = max(1, MOST_LOGITS[weight.device.type] // weight.shape[0])
    # Equal pieces, and a multiple of 8 rows where that can be: the tensor cores' step.
    count = max(1, -(-len(wanted.rows) // rows))
    size = max(1, -(-len(wanted.rows) // count))
    size = size if size < 8 else -(-size // 8) * 8
    return [slice(at, at + size) for at in range(0, len(wanted.rows), size)]


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """The product in f32. On CUDA 16-bit factors are multiplied as they are; elsewhere there is no such product."""
    if a.dtype == torch.float32:
        return a @ b
    if a.is_cuda:
        return torch.mm(a, b, out_dtype=torch.float32)
    return a.float() @ b.float()


# Over logits as they come out of the product: [rows, vocabulary], f32. `t` is the temperature, `log_sum` the log Σ e^(z / t) of each row.


def _stats(logits: Tensor, tokens: Tensor, t: Tensor, entropy: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Per row: log-prob of its token, entropy (empty where not wanted), log_sum."""
    z = logits / t
    log_sum = torch.logsumexp(z, 1)
    picked = z.gather(1, tokens[:, None])[:, 0] - log_sum
    if not entropy:
        return picked, logits.new_empty(0), log_sum
    log_p = z - log_sum[:, None]
    # A logit of -∞ has no part in it.
    return picked, torch.nan_to_num(torch.exp(log_p) * log_p, nan=0.0).sum(1).neg(), log_sum


def _slopes(logits: Tensor, tokens: Tensor, t: Tensor, log_sum: Tensor, dtype: torch.dtype) -> Tensor:
    """d log-prob / d logit = (δ − p) / t. The difference is taken in f32: rounded first, 1 − p of a likely token would be lost."""
    p = torch.exp(logits / t - log_sum[:, None])
    own = torch.arange(logits.shape[1], device=logits.device)[None, :] == tokens[:, None]
    return ((own.to(p.dtype) - p) / t).to(dtype)


def _entropy_slopes(logits: Tensor, t: Tensor, log_sum: Tensor, entropy: Tensor, dtype: torch.dtype) -> Tensor:
    """d entropy / d logit = −p·(ln p + H) / t."""
    log_p = logits / t - log_sum[:, None]
    return (torch.nan_to_num(torch.exp(log_p) * (log_p + entropy[:, None]), nan=0.0) / -t).to(dtype)


def _both(
    logits: Tensor, tokens: Tensor, t: Tensor, log_sum: Tensor, entropy: Tensor, g: Tensor, h: Tensor, dtype: torch.dtype
) -> Tensor:
    """What a row's derivatives of log-prob and entropy make of its logits."""
    of_log = _slopes(logits, tokens, t, log_sum, torch.float32) * g[:, None]
    return (of_log + _entropy_slopes(logits, t, log_sum, entropy, torch.float32) * h[:, None]).to(dtype)


@cache
def _fused(function: Callable[..., Any], device: str) -> Callable[..., Any]:
    """On a GPU these are bound by memory: compiled, each reads the logits once or twice and keeps nothing between."""
    return torch.compile(function, dynamic=True) if device == "cuda" else function


class _Piece:
    """The head on some rows."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None, wanted: Wanted) -> None:
        self.weight, self.bias, self.wanted = weight, bias, wanted
        self.device = weight.device.type
        self.t = torch.full((), wanted.temperature, device=weight.device)

    def logits(self, hidden: Tensor) -> Tensor:
        logits = multiply(hidden, self.weight.t())
        return logits if self.bias is None else logits + self.bias

    def stats(self, hidden: Tensor, at: slice, logits: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        logits = self.logits(hidden) if logits is None else logits
        return _fused(_stats, self.device)(logits, self.wanted.tokens[at], self.t, self.wanted.entropy)

    def slopes(self, logits: Tensor, at: slice, log_sum: Tensor) -> Tensor:
        return _fused(_slopes, self.device)(logits, self.wanted.tokens[at], self.t, log_sum, self.weight.dtype)

    def entropy_slopes(self, logits: Tensor, log_sum: Tensor, entropy: Tensor) -> Tensor:
        return _fused(_entropy_slopes, self.device)(logits, self.t, log_sum, entropy, self.weight.dtype)

    def both(self, logits: Tensor, at: slice, part: tuple[Tensor, Tensor, Tensor], g: Tensor, h: Tensor) -> Tensor:
        tokens = self.wanted.tokens[at]
        return _fused(_both, self.device)(logits, tokens, self.t, part[2], part[1], g, h, self.weight.dtype)


def _joined(parts: list[tuple[Tensor, Tensor, Tensor]], hidden: Tensor) -> tuple[Tensor, Tensor]:
    none = torch.empty(0, dtype=torch.float32, device=hidden.device)
    return torch.cat([none, *(part[0] for part in parts)]), torch.cat([none, *(part[1] for part in parts)])


def _spread(wanted: Wanted, slopes: list[Tensor], hidden: Tensor) -> Tensor:
    """Several tokens may be foretold by one row, so they are added up in f32."""
    spread = torch.zeros(hidden.shape, dtype=torch.float32, device=hidden.device)
    if slopes:
        spread.index_add_(0, wanted.rows, torch.cat(slopes))
    return spread.to(hidden.dtype)


class _FrozenScores(torch.autograd.Function):
    """
    For a head that is not trained: what backward multiplies the derivatives with is a row of `size` numbers per token, and is computed
    while the logits are there. Backward then never sees the vocabulary.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, wanted: Wanted) -> tuple[Tensor, Tensor]:
        picked, piece = hidden[wanted.rows], _Piece(hidden, weight, bias, wanted)
        parts, along, spreading = [], [], []
        for at in _pieces(wanted, weight):
            logits = piece.logits(picked[at])
            part = piece.stats(picked[at], at, logits)
            parts.append(part)
            along.append(piece.slopes(logits, at, part[2]) @ weight)
            if wanted.entropy:
                spreading.append(piece.entropy_slopes(logits, part[2], part[1]) @ weight)
            del logits
        ctx.wanted = wanted
        # For its shape alone: the hidden states themselves need not be kept.
        ctx.like = hidden.new_empty(()).expand(hidden.shape)
        ctx.save_for_backward(*along, *spreading)
        return _joined(parts, hidden)

    @staticmethod
    def backward(ctx: Any, logprobs: Tensor, entropy: Tensor) -> tuple[Tensor, None, None, None]:
        wanted, saved = ctx.wanted, ctx.saved_tensors
        pieces = len(saved) // 2 if wanted.entropy else len(saved)
        slopes = [torch.cat(saved[:pieces]).float() * logprobs[:, None]] if saved else []
        if saved and wanted.entropy:
            slopes = [slopes[0] + torch.cat(saved[pieces:]).float() * entropy[:, None]]
        return _spread(wanted, slopes, ctx.like), None, None, None


class _Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, wanted: Wanted) -> tuple[Tensor, Tensor]:
        picked, piece = hidden[wanted.rows], _Piece(hidden, weight, bias, wanted)
        keep = wanted.keep and not wanted.entropy
        kept = weight.new_empty(len(picked), len(weight)) if keep else None
        parts = []
        for at in _pieces(wanted, weight):
            logits = piece.logits(picked[at])
            parts.append(piece.stats(picked[at], at, logits))
            if kept is not None:
                kept[at] = piece.slopes(logits, at, parts[-1][2])
            del logits
        ctx.wanted, ctx.parts = wanted, parts
        ctx.save_for_backward(hidden, weight, bias, kept)
        return _joined(parts, hidden)

    @staticmethod
    def backward(ctx: Any, logprobs: Tensor, entropy: Tensor) -> tuple[Tensor, Tensor, Tensor | None, None]:
        wanted: Wanted = ctx.wanted
        hidden, weight, bias, kept = ctx.saved_tensors
        picked = hidden[wanted.rows]
        if kept is not None:
            # Each row's derivative goes to the narrow factor: the wide one is only read.
            g = logprobs[:, None]
            of_weight = kept.t() @ (picked * g).to(weight.dtype)
            of_bias = None if bias is None else (g.t().to(weight.dtype) @ kept)[0]
            return _spread(wanted, [multiply(kept, weight) * g], hidden), of_weight, of_bias, None
        piece = _Piece(hidden, weight, bias, wanted)
        of_weight = torch.zeros(weight.shape, dtype=torch.float32, device=weight.device)
        of_bias = None if bias is None else torch.zeros(bias.shape, dtype=torch.float32, device=weight.device)
        of_hidden = []
        for part, at in zip(ctx.parts, _pieces(wanted, weight)):
            logits, g = piece.logits(picked[at]), logprobs[at]
            if wanted.entropy:
                slopes, g = piece.both(logits, at, part, g, entropy[at]), torch.ones_like(g)
            else:
                slopes = piece.slopes(logits, at, part[2])
            del logits
            if of_bias is not None:
                of_bias += g @ slopes.float()
            of_hidden.append(multiply(slopes, weight) * g[:, None])
            of_weight += multiply(slopes.t(), (picked[at] * g[:, None]).to(weight.dtype))
        of_bias = None if of_bias is None else of_bias.to(weight.dtype)
        return _spread(wanted, of_hidden, hidden), of_weight.to(weight.dtype), of_bias, None

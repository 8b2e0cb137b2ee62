"""Draws the next token of every row of logits at once, on the device, without a generator's state: what is drawn depends on the row,
the request's seed and how many tokens came before it. Order as in the embedded engine: penalties, added logits, forbidden tokens,
temperature, top-k, top-p, min-p; then the inverse of the cumulative distribution in order of token id.

Log-probs are those of the temperature-scaled distribution that nothing else has shaped; greedy has none of its own, so there they are
those of temperature 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

#: How many of the likeliest tokens a step works out where a request asks for some.
TOP = 20


@dataclass(frozen=True)
class Variant:
    """What a step has to work out for the requests that are in it."""

    #: Penalties, added logits, a smallest length.
    shapes: bool = False
    #: top-k, top-p, min-p.
    cuts: bool = False
    #: The likeliest tokens are reported.
    top: bool = False


@dataclass
class Shape:
    """The rows' settings. [rows] each; `stops`, `bias`, `seen` and `said` [rows, vocabulary]."""

    #: 1 / temperature of the recorded distribution.
    inverse: Tensor
    greedy: Tensor
    seed: Tensor
    drawn: Tensor
    minimum: Tensor
    stops: Tensor
    #: Of the stretches that the vocabulary is summed over.
    width: int
    top_k: Tensor | None = None
    top_p: Tensor | None = None
    min_p: Tensor | None = None
    repetition: Tensor | None = None
    presence: Tensor | None = None
    frequency: Tensor | None = None
    bias: Tensor | None = None
    seen: Tensor | None = None
    said: Tensor | None = None


@dataclass
class Drawn:
    token: Tensor
    #: NaN where the logits are not finite.
    logprob: Tensor
    #: Under what was really drawn from.
    own: Tensor
    #: [rows, TOP], best first.
    top_tokens: Tensor | None = None
    top_logprobs: Tensor | None = None


def draw(logits: Tensor, shape: Shape, variant: Variant) -> Drawn:
    """One token for each row of `logits` [rows, vocabulary], f32."""
    inverse = shape.inverse[:, None]
    highest, best = logits.max(dim=1, keepdim=True)
    mass = _mass(logits, highest, inverse, shape.width)
    uniforms = uniform(shape.seed, shape.drawn)

    def recorded(tokens: Tensor) -> Tensor:
        own = (logits.gather(1, tokens) - highest) * inverse
        return (own.double() - mass.sum(1, keepdim=True).log()).float()

    if variant.shapes or variant.cuts:
        token, own = _shaped(logits, shape, variant, uniforms)
    else:
        drawn = _inverse(logits, highest, inverse, mass, uniforms, shape.width)
        token = torch.where(shape.greedy[:, None], best, drawn)
        own = None
    logprob = recorded(token)[:, 0]
    # A forbidden token may have hidden a broken logit from the choice.
    logprob = torch.where(highest[:, 0].isfinite(), logprob, math.nan)
    own = torch.where(shape.greedy, 0.0, logprob) if own is None else own
    result = Drawn(token[:, 0], logprob, own)
    if variant.top:
        result.top_tokens = logits.topk(min(TOP, logits.shape[1]), dim=1).indices
        result.top_logprobs = recorded(result.top_tokens)
    return result


def _shaped(logits: Tensor, shape: Shape, variant: Variant, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """The token [rows, 1] and its log-prob among what was left [rows]."""
    inverse = shape.inverse[:, None]
    left = _penalised(logits, shape) if variant.shapes else logits
    highest, best = left.max(dim=1, keepdim=True)
    if variant.cuts:
        left = _cut(left, highest, inverse, shape)
    mass = _mass(left, highest, inverse, shape.width)
    token = torch.where(shape.greedy[:, None], best, _inverse(left, highest, inverse, mass, uniforms, shape.width))
    own = ((left.gather(1, token) - highest) * inverse)[:, 0].double() - mass.sum(1).log()
    return token, torch.where(shape.greedy, 0.0, own.float())


def _penalised(logits: Tensor, shape: Shape) -> Tensor:
    assert shape.repetition is not None and shape.presence is not None and shape.frequency is not None
    assert shape.seen is not None and shape.said is not None and shape.bias is not None
    repetition = torch.where(shape.seen, shape.repetition[:, None], 1.0)
    left = torch.where(logits < 0, logits * repetition, logits / repetition)
    left = left - torch.where(
        shape.said > 0, shape.said * shape.frequency[:, None] + shape.presence[:, None], 0.0
    )
    left = left + shape.bias
    forbidden = shape.stops & (shape.drawn < shape.minimum)[:, None]
    return left.masked_fill(forbidden, -math.inf)


def _cut(logits: Tensor, highest: Tensor, inverse: Tensor, shape: Shape) -> Tensor:
    """-inf for what top-k, top-p and min-p take away; the mass that top-p is a share of is what top-k left."""
    assert shape.top_k is not None and shape.top_p is not None and shape.min_p is not None
    weights = ((logits - highest) * inverse).exp()
    falling, order = weights.sort(dim=1, descending=True, stable=True)
    rank = torch.arange(weights.shape[1], device=weights.device)[None]
    limit = torch.where(shape.top_k > 0, shape.top_k, weights.shape[1])[:, None]
    falling = falling.double().masked_fill(rank >= limit, 0.0)
    before = falling.cumsum(1) - falling
    share = shape.top_p.double()[:, None]
    kept = (rank < limit) & ((before < share * falling.sum(1, keepdim=True)) | (share >= 1) | (rank == 0))
    kept &= falling >= shape.min_p.double()[:, None]
    return logits.masked_fill(~torch.empty_like(kept).scatter_(1, order, kept), -math.inf)


def _mass(logits: Tensor, highest: Tensor, inverse: Tensor, width: int) -> Tensor:
    """Sums of the weights e^((logit − highest) / temperature) over stretches of the vocabulary. [rows, stretches] f64"""
    return _stretches(((logits - highest) * inverse).exp(), width, 0.0).sum(2, dtype=torch.float64)


def _inverse(logits: Tensor, highest: Tensor, inverse: Tensor, mass: Tensor, uniforms: Tensor, width: int) -> Tensor:
    """The token at `uniforms` of the cumulative distribution: first its stretch, then its place there. Never one of no weight,
    whatever was lost to rounding. [rows, 1]"""
    up_to = mass.cumsum(1)
    target = uniforms[:, None] * up_to[:, -1:]
    stretch = _first((up_to > target) & (mass > 0), mass > 0)
    stretches = _stretches(logits, width, -math.inf)
    own = stretches.gather(1, stretch[:, :, None].expand(-1, 1, width))[:, 0]
    weights = ((own - highest) * inverse).exp().double()
    begun = torch.where(stretch > 0, up_to.gather(1, (stretch - 1).clamp(min=0)), 0.0)
    place = _first((begun + weights.cumsum(1) > target) & (weights > 0), weights > 0)
    return (stretch * width + place).clamp(max=logits.shape[1] - 1)


def _first(wanted: Tensor, possible: Tensor) -> Tensor:
    """The first place of each row that is wanted, else the last that is possible. [rows, 1]"""
    width = wanted.shape[1]
    last = width - 1 - possible.flip(1).byte().argmax(1, keepdim=True)
    return torch.where(wanted.any(1, keepdim=True), wanted.byte().argmax(1, keepdim=True), last)


def _stretches(row: Tensor, width: int, filler: float) -> Tensor:
    """[rows, vocabulary] as [rows, stretches, width], without a copy where the vocabulary can be divided."""
    missing = -row.shape[1] % width
    return (pad(row, (0, missing), value=filler) if missing else row).view(row.shape[0], -1, width)


def stretch_width(vocabulary: int) -> int:
    """About the root of the vocabulary, and a divisor of it where there is one."""
    root = math.isqrt(vocabulary)
    near = [width for width in range(max(1, root // 4), 4 * root + 1) if vocabulary % width == 0]
    return min(near, key=lambda width: abs(width - root), default=max(1, root))


def uniform(seed: Tensor, counter: Tensor) -> Tensor:
    """Uniform in [0, 1) with 53 bits, the numbers of the embedded engine: two rounds of SplitMix64's finaliser, in int64 that wraps."""
    bits = _mix(_mix(seed ^ _signed(0x9E3779B97F4A7C15)) + counter * _signed(0xD1B54A32D192ED03))
    return _shift(bits, 11).double() / float(1 << 53)


def _mix(value: Tensor) -> Tensor:
    x = value + _signed(0x9E3779B97F4A7C15)
    x = (x ^ _shift(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shift(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shift(x, 31)


def _shift(x: Tensor, count: int) -> Tensor:
    return (x >> count) & ((1 << (64 - count)) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value

"""What the device knows of each slot, so that a step needs nothing of the host: the last token and its place, the request's settings,
what was drawn last. A slot's row is written when a reply takes it; steps change it from then on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .draw import TOP, Shape, Variant, draw, stretch_width
from .request import Request

#: Columns of what a step leaves for the host: token, log-prob, log-prob under what was drawn from, the likeliest tokens, theirs.
REPORT = 3 + 2 * TOP


@dataclass
class Tables:
    """Of requests with penalties or added logits. [slots, vocabulary] each."""

    bias: Tensor
    #: Whether a token is in prompt or reply, where the repetition penalty is on, and how often it is in the reply.
    seen: Tensor
    said: Tensor

    def first(self, rows: int) -> Tables:
        return Tables(self.bias[:rows], self.seen[:rows], self.said[:rows])


Turn = Callable[[Tensor, Tensor, Tensor, Tensor, "Tables | None", int, Variant], "tuple[Tensor, Tensor]"]


def take_turn(
    logits: Tensor, whole: Tensor, parts: Tensor, stops: Tensor, tables: Tables | None, width: int, variant: Variant
) -> tuple[Tensor, Tensor]:
    """Draws, and works out the rows' new `whole` [rows, 8] and what to report of them. A row that is not alive stays as it is."""
    token, position, alive, seed, drawn, limit, minimum, top_k = whole.unbind(1)
    temperature, top_p, min_p, repetition, presence, frequency = parts.unbind(1)
    greedy = temperature == 0
    shape = Shape(
        # Bounded, so that the best token of the coldest row is not 0 · ∞.
        inverse=torch.where(greedy, 1.0, (1.0 / temperature).clamp(max=1e30)),
        greedy=greedy,
        seed=seed,
        drawn=drawn,
        minimum=minimum,
        stops=stops,
        width=width,
    )
    if variant.cuts:
        shape.top_k, shape.top_p, shape.min_p = top_k, top_p, min_p
    if variant.shapes:
        assert tables is not None
        shape.repetition, shape.presence, shape.frequency = repetition, presence, frequency
        shape.bias, shape.seen, shape.said = tables.bias, tables.seen, tables.said
    found = draw(logits, shape, variant)
    # f64 holds a token and an f32 exactly, so that one copy brings all to the host.
    report = torch.stack([found.token.double(), found.logprob.double(), found.own.double()], 1)
    if found.top_tokens is not None and found.top_logprobs is not None:
        room = TOP - found.top_tokens.shape[1]
        lists = [torch.nn.functional.pad(one.double(), (0, room)) for one in (found.top_tokens, found.top_logprobs)]
        report = torch.cat([report, *lists], 1)
    stopped = stops.gather(1, found.token[:, None])[:, 0]
    goes_on = (alive > 0) & ~stopped & (drawn + 1 < limit)
    now = torch.where(alive > 0, found.token, token)
    columns = [now, position + alive, goes_on.long(), seed, drawn + alive, limit, minimum, top_k]
    return torch.stack(columns, 1), report


class Slots:
    def __init__(self, count: int, vocabulary: int, device: torch.device) -> None:
        self.device = device
        #: Columns as take_turn() names them.
        self._whole = torch.zeros(count, 8, dtype=torch.int64, device=device)
        self._parts = torch.ones(count, 6, dtype=torch.float32, device=device)
        self.token, self.position, self.alive = self._whole.unbind(1)[:3]
        self.stops = torch.zeros(count, vocabulary, dtype=torch.bool, device=device)
        self.report = torch.zeros(count, REPORT, dtype=torch.float64, device=device)
        #: Made when the first request comes that needs them.
        self.tables: Tables | None = None
        self._width = stretch_width(vocabulary)
        self._stops: list[frozenset[int]] = [frozenset()] * count
        self._shaped: set[int] = set()

    def make_tables(self) -> None:
        zeros = torch.zeros(self.stops.shape, dtype=torch.float32, device=self.device)
        self.tables = Tables(zeros, torch.zeros_like(self.stops), torch.zeros_like(zeros))

    def put(self, slot: int, request: Request) -> None:
        """The prompt's last token is the first that a step runs; what lies before it is in the cache."""
        r = request
        whole = [int(r.prompt[-1]), len(r.prompt) - 1, 1, r.seed, 0, r.limit, r.minimum, r.top_k]
        parts = [r.temperature, r.top_p, r.min_p, r.repetition, r.presence, r.frequency]
        self._whole[slot] = self._sent(whole, torch.int64)
        self._parts[slot] = self._sent(parts, torch.float32)
        if r.stops != self._stops[slot]:
            self.stops[slot] = False
            self.stops[slot, self._sent(list(r.stops), torch.int64)] = True
            self._stops[slot] = r.stops
        if self.tables is not None and (r.shapes or slot in self._shaped):
            self._put_tables(self.tables, slot, r)

    def _put_tables(self, tables: Tables, slot: int, r: Request) -> None:
        tables.bias[slot], tables.said[slot], tables.seen[slot] = 0.0, 0.0, False
        self._shaped.discard(slot)
        if r.shapes:
            self._shaped.add(slot)
            tables.bias[slot, self._sent(list(r.bias), torch.int64)] = self._sent(list(r.bias.values()), torch.float32)
            if r.repetition != 1:
                tables.seen[slot, self._sent(list(set(r.prompt.tolist())), torch.int64)] = True

    def _sent(self, numbers: list[Any], dtype: torch.dtype) -> Tensor:
        """On the device, without waiting for the steps that are under way there."""
        return torch.tensor(numbers, dtype=dtype).to(self.device, non_blocking=True)

    def stop(self, slot: int) -> None:
        self.alive[slot] = 0

    def move(self, source: int, target: int) -> None:
        tables = self.tables
        for table in (self._whole, self._parts, self.stops, *((tables.bias, tables.said, tables.seen) if tables else ())):
            table[target] = table[source]
        self.alive[source] = 0
        self._stops[target] = self._stops[source]
        (self._shaped.add if source in self._shaped else self._shaped.discard)(target)

    def draw(self, logits: Tensor, variant: Variant, turn: Turn = take_turn) -> None:
        """The next token of each of the first rows, and everything that follows from it."""
        rows = logits.shape[0]
        tables = self.tables.first(rows) if self.tables else None
        alive = self.alive[:rows].bool()
        whole, report = turn(logits, self._whole[:rows], self._parts[:rows], self.stops[:rows], tables, self._width, variant)
        if tables is not None:
            each, token = torch.arange(rows, device=self.device), whole[:, 0]
            tables.seen[each, token] |= alive
            tables.said[each, token] += alive
        self._whole[:rows] = whole
        self.report[:rows, : report.shape[1]] = report

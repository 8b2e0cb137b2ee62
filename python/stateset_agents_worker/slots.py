"""What the device knows of each slot, so that a step needs nothing of the host: the last token and its place, the request's settings,
what was drawn last. A slot's row is written when a reply takes it; steps change it from then on."""

from __future__ import annotations

import torch
from torch import Tensor

from .draw import TOP, Drawn, Shape, Variant
from .request import Request

#: Columns of what a step leaves for the host: token, log-prob, log-prob under what was drawn from, the likeliest tokens, theirs.
REPORT = 3 + 2 * TOP


class Slots:
    def __init__(self, count: int, vocabulary: int, device: torch.device) -> None:
        self.count = count
        self.device = device
        whole = torch.zeros(count, 8, dtype=torch.int64, device=device)
        parts = torch.ones(count, 6, dtype=torch.float32, device=device)
        self._whole, self._parts = whole, parts
        self.token, self.position, self.alive, self.seed, self.drawn, self.limit, self.minimum, self.top_k = whole.unbind(1)
        self.temperature, self.top_p, self.min_p, self.repetition, self.presence, self.frequency = parts.unbind(1)
        self.stops = torch.zeros(count, vocabulary, dtype=torch.bool, device=device)
        #: f64 holds a token and an f32 exactly, so that one copy brings all to the host.
        self.report = torch.zeros(count, REPORT, dtype=torch.float64, device=device)
        #: Of requests with penalties or added logits, made when the first one comes.
        self.bias: Tensor | None = None
        self.seen: Tensor | None = None
        self.said: Tensor | None = None
        self._stops: list[frozenset[int]] = [frozenset()] * count
        self._shaped: set[int] = set()

    def needs_tables(self, request: Request) -> bool:
        return request.shapes and self.bias is None

    def make_tables(self) -> None:
        self.bias = torch.zeros(self.stops.shape, dtype=torch.float32, device=self.device)
        self.said = torch.zeros_like(self.bias)
        self.seen = torch.zeros_like(self.stops)

    def put(self, slot: int, request: Request) -> None:
        """The prompt's last token is the first that a step runs; what lies before it is in the cache."""
        r = request
        whole = [int(r.prompt[-1]), len(r.prompt) - 1, 1, r.seed, 0, r.limit, r.minimum, r.top_k]
        parts = [r.temperature, r.top_p, r.min_p, r.repetition, r.presence, r.frequency]
        self._whole[slot] = torch.tensor(whole, dtype=torch.int64)
        self._parts[slot] = torch.tensor(parts, dtype=torch.float32)
        if r.stops != self._stops[slot]:
            self.stops[slot] = False
            self.stops[slot, self._indices(r.stops)] = True
            self._stops[slot] = r.stops
        if self.bias is None or not (r.shapes or slot in self._shaped):
            return
        assert self.seen is not None and self.said is not None
        self.bias[slot], self.said[slot], self.seen[slot] = 0.0, 0.0, False
        self._shaped.discard(slot)
        if r.shapes:
            self._shaped.add(slot)
            if r.bias:
                added = torch.tensor(list(r.bias.values()), dtype=torch.float32, device=self.device)
                self.bias[slot, self._indices(r.bias)] = added
            if r.repetition != 1:
                self.seen[slot, self._indices(set(r.prompt.tolist()))] = True

    def _indices(self, tokens: frozenset[int] | set[int] | dict[int, float]) -> Tensor:
        return torch.tensor(list(tokens), dtype=torch.int64, device=self.device)

    def stop(self, slot: int) -> None:
        self.alive[slot] = 0

    def move(self, source: int, target: int) -> None:
        for table in (self._whole, self._parts, self.stops, self.bias, self.said, self.seen):
            if table is not None:
                table[target] = table[source]
        self.alive[source] = 0
        self._stops[target] = self._stops[source]
        (self._shaped.add if source in self._shaped else self._shaped.discard)(target)

    def shape(self, rows: int, variant: Variant) -> Shape:
        temperature = self.temperature[:rows]
        greedy = temperature == 0
        shape = Shape(
            # Bounded, so that the best token of the coldest row is not 0 · ∞.
            inverse=torch.where(greedy, 1.0, (1.0 / temperature).clamp(max=1e30)),
            greedy=greedy,
            seed=self.seed[:rows],
            drawn=self.drawn[:rows],
            minimum=self.minimum[:rows],
            stops=self.stops[:rows],
        )
        if variant.cuts:
            shape.top_k, shape.top_p, shape.min_p = self.top_k[:rows], self.top_p[:rows], self.min_p[:rows]
        if variant.shapes:
            assert self.bias is not None and self.seen is not None and self.said is not None
            shape.repetition, shape.presence = self.repetition[:rows], self.presence[:rows]
            shape.frequency = self.frequency[:rows]
            shape.bias, shape.seen, shape.said = self.bias[:rows], self.seen[:rows], self.said[:rows]
        return shape

    def advance(self, drawn: Drawn) -> None:
        """Notes what was drawn. A row that is not alive stays as it is."""
        token = drawn.token
        rows = token.shape[0]
        alive = self.alive[:rows].bool()
        columns = [token.double(), drawn.logprob.double(), drawn.own.double()]
        self.report[:rows, :3] = torch.stack(columns, 1)
        if drawn.top_tokens is not None and drawn.top_logprobs is not None:
            width = drawn.top_tokens.shape[1]
            self.report[:rows, 3 : 3 + width] = drawn.top_tokens.double()
            self.report[:rows, 3 + TOP : 3 + TOP + width] = drawn.top_logprobs.double()
        if self.seen is not None and self.said is not None:
            each = torch.arange(rows, device=self.device)
            self.seen[each, token] |= alive
            self.said[each, token] += alive
        self.token[:rows] = torch.where(alive, token, self.token[:rows])
        self.position[:rows] += alive
        self.drawn[:rows] += alive
        stopped = self.stops[:rows].gather(1, token[:, None])[:, 0]
        self.alive[:rows] = (alive & ~stopped & (self.drawn[:rows] < self.limit[:rows])).long()

"""Keeps the model busy with replies. Each takes a slot of the cache, and another takes its place when it ends; prompts are computed in
pieces between the steps, and what prompts share is computed once. The device knows by itself when a reply ends, so the host may look
at what was drawn a little later than it is drawn."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from . import attention
from .decoder import Burst, Decoder
from .draw import Variant
from .errors import WorkerError
from .graphs import Steps
from .kv_cache import KvShape, rounded_length, token_budget
from .places import Places
from .prefill_attention import Piece, Prefill, without_plans
from .replies import Reply
from .request import Out, Request, read_request
from .slots import REPORT
from .transfer import to_device

__all__ = ["Out", "Sampler"]

#: A request waits for another's prompt when that saves more than this many tokens.
WORTH_WAITING = 8
NOT_FINITE = WorkerError(
    "NOT_FINITE", "The model's logits are not finite. Its weights hold NaN or infinity, or have diverged."
)


@dataclass
class Flight:
    """A step that was begun, and where what it drew will lie."""

    rows: list[tuple[int, Reply]]
    report: Tensor
    arrived: torch.cuda.Event | None


class Sampler:
    def __init__(
        self,
        model: nn.Module,
        *,
        slots: int,
        context_length: int,
        cache_tokens: int | None = None,
        dtype: torch.dtype | None = None,
        burst: Burst | None = None,
        count: Callable[[], int] = lambda: 0,
    ) -> None:
        """`dtype`: what is computed in, where that is not what the parameters are in; `count`: of the weights' changes, to be
        reported with a reply."""
        self.decoder = Decoder(model, dtype, sharded=burst is not None)
        self.burst = burst
        self._count = count
        self._most = max(1, slots)
        self._context = context_length
        self._cache_tokens = cache_tokens
        cuda = self.decoder.device.type == "cuda"
        #: Steps that may be begun before what the first of them drew is looked at.
        self._ahead = 2 if cuda else 0
        #: Prompt tokens that are computed between two steps, while replies wait for them and while none does.
        self._pieces = (_bounded(self.decoder), 16384) if cuda else (256, 1024)
        #: Steps for which a prompt may wait for others, while replies are drawn: a step is one replayed graph, and computing prompts takes
        #: as long as ten of them, however few there are.
        self._patience = 16 if cuda else 0
        self._waited = 0
        self._steps = Steps(self.decoder)
        #: Made with the first request, when it is known what memory is left.
        self._places: Places | None = None
        self._waiting: deque[Request] = deque()
        self._waits_for: dict[int, Reply] = {}
        self._flights: deque[Flight] = deque()
        self._outs: list[Out] = []
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.sampled_tokens = 0
        #: Prompt tokens that went through the model.
        self.computed_tokens = 0

    @property
    def _replies(self) -> dict[int, Reply]:
        return self._places.replies if self._places else {}

    def add(self, id: int, options: dict, tokens: Tensor) -> None:
        self._waiting.append(read_request(id, options, tokens, self.decoder.vocabulary, self._context))

    def cancel(self, id: int) -> None:
        for request in self._waiting:
            if request.id == id:
                self._waiting.remove(request)
                self._waits_for.pop(id, None)
                self._outs.append(Reply(request, -1, 0).out("aborted", self._count()))
                return
        for reply in self._replies.values():
            if reply.request.id == id:
                self._end(reply, reply.out("aborted", self._count()))
                return

    @property
    def idle(self) -> bool:
        return not (self._waiting or self._replies or self._outs)

    @property
    def most_cache_bytes(self) -> int:
        """What keys and values would take if every slot were as long as the context, or the most that they may."""
        shape = KvShape.of(self.decoder.config, self.decoder.dtype, self.decoder.device)
        tokens = min(self._most * rounded_length(self._context), token_budget(shape, self._cache_tokens))
        return tokens * shape.bytes_per_token

    def forget(self) -> None:
        """The weights have changed: what was computed with the old ones is void."""
        if self._places is not None:
            self._places.forget()
        self.end_burst()

    def end_burst(self) -> None:
        """Sharded weights go back into shards. The next step() makes them whole again."""
        if self.burst is not None:
            self.burst.end_burst()

    def stats(self) -> dict:
        return {
            "running": len(self._replies),
            "waiting": len(self._waiting),
            "slots": self._most,
            "cacheBytes": self._places.cache.bytes if self._places else 0,
            "promptTokens": self.prompt_tokens,
            "cachedTokens": self.cached_tokens,
            "sampledTokens": self.sampled_tokens,
            "versions": 1,
        }

    def step(self) -> list[Out]:
        """Admits requests that wait, computes a piece of their prompts, and begins one step of those that are through."""
        if self.burst is not None:
            self.burst.begin_burst()
        if self._waiting or self._replies:
            try:
                with torch.no_grad():
                    places = self._places = self._places or Places(self.decoder, self._most, self._cache_tokens)
                    self._admit(places)
                    self._prefill(places)
                    # Those whose prompt was just computed by another need not miss the step.
                    self._admit(places)
                    self._collect(self._ahead if self._decode(places) else 0)
            except Exception:
                # Whose fault it was cannot be told: whoever called has lost all of them.
                self._empty()
                raise
        outs, self._outs = self._outs, []
        return outs

    # Requests find their slots.

    def _admit(self, places: Places) -> None:
        at = 0
        while at < len(self._waiting):
            request = self._waiting[at]
            behind = self._waits_for.get(request.id)
            if behind is not None and behind.prefilling:
                at += 1
                continue
            others = (other.room for other in self._waiting)
            if not places.has_room(request, others, len(self._waiting), self._before_moving):
                return
            look = places.prefixes.look(request.namespace, request.usable)
            # Its prompt is being computed, and saves this one much that nobody has yet.
            if look.coming and look.coming.count > WORTH_WAITING + (look.found.count if look.found else 0):
                self._waits_for[request.id] = places.replies[look.coming.slot]
                at += 1
                continue
            del self._waiting[at]
            self._waits_for.pop(request.id, None)
            reply = places.take(request, look.found)
            self.prompt_tokens += len(request.prompt)
            self.cached_tokens += reply.cached
            if not reply.prefilling:
                self._ready(places, reply)

    def _before_moving(self) -> None:
        self._collect(0)
        self._steps.drop()

    def _ready(self, places: Places, reply: Reply) -> None:
        if reply.request.shapes and places.slots.tables is None:
            places.slots.make_tables()
            # Steps that were captured without them would not keep them up.
            self._steps.drop()
        places.slots.put(reply.slot, reply.request)

    # Prompts are computed.

    def _prefill(self, places: Places) -> None:
        prefilling = [reply for reply in self._replies.values() if reply.prefilling]
        drawing = sum(reply.wants_step for reply in self._replies.values())
        # One that has begun has waited.
        begun = any(reply.computed > reply.cached for reply in prefilling)
        if prefilling and not begun and 4 * len(prefilling) < drawing and self._waited < self._patience:
            self._waited += 1
            return
        self._waited = 0
        left = self._pieces[0 if len(prefilling) < len(self._replies) else 1]
        work: list[tuple[Reply, Piece]] = []
        for reply in prefilling:
            count = min(left, reply.missing)
            if count > 0:
                work.append((reply, Piece(reply.slot, reply.computed, count)))
                left -= count
        if not work:
            return
        tokens = [reply.request.prompt[piece.start : piece.end] for reply, piece in work]
        positions = [np.arange(piece.start, piece.end) for _, piece in work]
        both = to_device(np.stack([np.concatenate(tokens), np.concatenate(positions)]), self.decoder.device)
        with attention.use(Prefill(places.cache, [piece for _, piece in work])), without_plans():
            self.decoder.hidden(both[:1], both[1:])
        for reply, piece in work:
            self.computed_tokens += piece.count
            reply.computed += piece.count
            places.prefixes.grown(reply.slot, reply.computed)
            if not reply.prefilling:
                self._ready(places, reply)

    # Replies are drawn.

    def _decode(self, places: Places) -> bool:
        """Begins a step, if any reply still needs one."""
        ready = [reply for reply in self._replies.values() if reply.wants_step]
        if not ready:
            return False
        enough = batch_size(len(ready))
        if not self._waiting and batch_size(max(reply.slot for reply in ready) + 1) > enough:
            places.close_ranks(ready, enough)
        rows = min(batch_size(max(reply.slot for reply in ready) + 1), places.cache.slots)
        length = min(rounded_length(max(reply.reach for reply in ready)), places.cache.length)
        variant = Variant(
            shapes=any(reply.request.shapes for reply in ready),
            cuts=any(reply.request.cuts for reply in ready),
            top=any(reply.request.top > 0 for reply in ready),
        )
        self._steps.run(places.cache, places.slots, rows, length, variant)
        report = places.slots.report[:rows, : REPORT if variant.top else 3]
        arrived = None
        if report.is_cuda:
            there = torch.empty(report.shape, dtype=report.dtype, pin_memory=True)
            there.copy_(report.contiguous(), non_blocking=True)
            report, arrived = there, torch.cuda.Event()
            arrived.record()
        for reply in ready:
            reply.begun += 1
        self._flights.append(Flight([(reply.slot, reply) for reply in ready], report, arrived))
        return True

    def _collect(self, ahead: int) -> None:
        """Looks at what was drawn, but for the last `ahead` steps."""
        while len(self._flights) > ahead:
            flight = self._flights.popleft()
            if flight.arrived is not None:
                flight.arrived.synchronize()
            table = flight.report.tolist()
            for row, reply in flight.rows:
                if not reply.done:
                    self._take(reply, table[row])

    def _take(self, reply: Reply, report: list[float]) -> None:
        reply.take(report)
        self.sampled_tokens += 1
        if reply.broken:
            self._end(reply, reply.failure(NOT_FINITE))
            return
        if reply.request.stream:
            self._outs.append(reply.event())
        finish = reply.finish
        if finish is not None:
            self._end(reply, reply.out(finish, self._count()))

    def _end(self, reply: Reply, out: Out) -> None:
        assert self._places is not None
        reply.done = True
        self._places.leave(reply)
        self._outs.append(out)

    def _empty(self) -> None:
        self._waiting.clear()
        self._waits_for.clear()
        self._flights.clear()
        self._outs.clear()
        if self._places is not None:
            self._places.clear()
        self._steps.drop()


def _bounded(decoder: Decoder) -> int:
    """Of a small model, as many as take a GPU no longer than it takes to be told all operations of one pass; of a large one, few, so that
    replies need not wait long."""
    parameters = sum(parameter.numel() for parameter in decoder.trunk.parameters())
    return min(16384, max(4096, 1 << round(math.log2(1e13 / parameters))))


def batch_size(rows: int) -> int:
    """Steps are made for few sizes: 1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, …"""
    power = 1 << (rows - 1).bit_length()
    return power * 3 // 4 if power >= 32 and rows <= power * 3 // 4 else power

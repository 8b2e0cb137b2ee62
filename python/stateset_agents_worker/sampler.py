"""Keeps the model busy with replies. Each takes a slot of the cache, and another takes its place when it ends; prompts are computed in
pieces between the steps, and what prompts share is computed once. The device knows by itself when a reply ends, so the host may look
at what was drawn a little later than it is drawn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from . import attention
from .decode_attention import Piece, Prefill
from .decoder import Burst, Decoder
from .draw import Variant
from .errors import WorkerError
from .graphs import Steps
from .kv_cache import KvCache, KvShape, Size, rounded_length, token_budget
from .prefixes import Prefixes, common
from .replies import Reply
from .request import Out, Request, read_request
from .room import Room
from .slots import REPORT, Slots

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
        self._asked = cache_tokens
        self._room: Room | None = None
        self._cuda = self.decoder.device.type == "cuda"
        #: Steps that may be begun before what the first of them drew is looked at.
        self._ahead = 2 if self._cuda else 0
        #: Prompt tokens that are computed between two steps, while replies wait for them and while none does.
        self._pieces = (4096, 16384) if self._cuda else (256, 1024)
        self._steps = Steps(self.decoder)
        self._cache: KvCache | None = None
        self._slots: Slots | None = None
        self._prefixes = Prefixes()
        self._waiting: deque[Request] = deque()
        self._waits_for: dict[int, Reply] = {}
        self._replies: dict[int, Reply] = {}
        self._flights: deque[Flight] = deque()
        self._outs: list[Out] = []
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.sampled_tokens = 0
        #: Prompt tokens that went through the model.
        self.computed_tokens = 0

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

    def forget(self) -> None:
        """The weights have changed: what was computed with the old ones is void."""
        self._prefixes.resize(len(self._prefixes.slots), keep=False)
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
            "cacheBytes": self._cache.bytes if self._cache else 0,
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
                    self._admit()
                    self._prefill()
                    # Those whose prompt was just computed by another need not miss the step.
                    self._admit()
                    self._collect(self._ahead if self._decode() else 0)
            except Exception:
                # Whose fault it was cannot be told: whoever called has lost all of them.
                self._empty()
                raise
        outs, self._outs = self._outs, []
        return outs

    # Requests find their slots.

    def _admit(self) -> None:
        at = 0
        while at < len(self._waiting):
            request = self._waiting[at]
            behind = self._waits_for.get(request.id)
            if behind is not None and behind.prefilling:
                at += 1
                continue
            if not self._has_room(request):
                return
            free = [slot for slot in range(len(self._prefixes.slots)) if slot not in self._replies]
            # The prompt's last token is always run: its logits are needed.
            usable = request.prompt[:-1]
            found = self._prefixes.find(request.namespace, usable)
            saved = found.count if found else 0
            behind = self._computing(request, saved + WORTH_WAITING)
            if behind is not None:
                self._waits_for[request.id] = behind
                at += 1
                continue
            del self._waiting[at]
            self._waits_for.pop(request.id, None)
            slot = self._prefixes.choose(free, found)
            self._begin(request, slot, found.slot if found else slot, saved)

    def _computing(self, request: Request, beyond: int) -> Reply | None:
        """A reply whose prompt, once it is through, saves this one more than `beyond` tokens."""
        for reply in self._replies.values():
            if reply.prefilling and reply.request.namespace == request.namespace:
                if common(reply.request.prompt[:-1], request.prompt[:-1]) > beyond:
                    return reply
        return None

    def _begin(self, request: Request, slot: int, source: int, saved: int) -> None:
        assert self._cache is not None
        self._cache.copy(source, slot, saved)
        self._prefixes.hold(slot, request.namespace, request.prompt, saved)
        reply = self._replies[slot] = Reply(request, slot, saved)
        self.prompt_tokens += len(request.prompt)
        self.cached_tokens += saved
        if not reply.prefilling:
            self._ready(reply)

    def _ready(self, reply: Reply) -> None:
        assert self._slots is not None
        if self._slots.needs_tables(reply.request):
            self._slots.make_tables()
        self._slots.put(reply.slot, reply.request)

    def _has_room(self, request: Request) -> bool:
        """Whether a slot that is long enough is free, after giving the cache another size where that helps."""
        cache = self._cache = self._cache or KvCache(self._kv_shape())
        self._slots = self._slots or Slots(self._most, self.decoder.vocabulary, self.decoder.device)
        room = self._room = self._room or Room(self._most, token_budget(cache.shape, self._asked))
        others = [other.room for other in self._waiting]
        size = room.better(cache.size, request.room, others, len(self._replies), len(self._waiting))
        if size is not None:
            self._remake(room, cache, size)
        return len(self._replies) < cache.slots and request.room <= cache.spare

    def _remake(self, room: Room, cache: KvCache, size: Size) -> None:
        self._collect(0)
        self._steps.drop()
        keep = room.keeps(cache.size, size)
        while True:
            try:
                cache.remake(size, keep)
                break
            except torch.OutOfMemoryError:
                if self._replies:
                    # They go on in what they have; when they are through there is more room.
                    return
                if size.slots == 1 and not keep:
                    raise
                size = size if keep else Size(size.slots // 2, size.length)
                keep = False
        self._prefixes.resize(size.slots, keep)

    def _kv_shape(self) -> KvShape:
        return KvShape.of(self.decoder.config, self.decoder.dtype, self.decoder.device)

    # Prompts are computed.

    def _prefill(self) -> None:
        assert self._cache is not None or not self._replies
        prefilling = [reply for reply in self._replies.values() if reply.prefilling]
        left = self._pieces[0 if len(prefilling) < len(self._replies) else 1]
        work: list[tuple[Reply, Piece]] = []
        for reply in prefilling:
            count = min(left, reply.missing)
            if count > 0:
                work.append((reply, Piece(reply.slot, reply.computed, count)))
                left -= count
        if not work:
            return
        tokens, positions = [], []
        for reply, piece in work:
            tokens.append(torch.from_numpy(reply.request.prompt[piece.start : piece.start + piece.count]))
            positions.append(torch.arange(piece.start, piece.start + piece.count))
        device = self.decoder.device
        assert self._cache is not None
        with attention.use(Prefill(self._cache, [piece for _, piece in work])):
            self.decoder.hidden(torch.cat(tokens)[None].to(device), torch.cat(positions)[None].to(device))
        for reply, piece in work:
            self.computed_tokens += piece.count
            reply.computed += piece.count
            held = self._prefixes.slots[reply.slot]
            assert held is not None
            held.count = reply.computed
            if not reply.prefilling:
                self._ready(reply)

    # Replies are drawn.

    def _decode(self) -> bool:
        """Begins a step, if any reply still needs one."""
        ready = [reply for reply in self._replies.values() if reply.wants_step]
        if not ready:
            return False
        assert self._cache is not None and self._slots is not None
        if not self._waiting:
            self._close_ranks(ready)
        rows = min(batch_size(max(reply.slot for reply in ready) + 1), self._cache.slots)
        length = min(rounded_length(max(reply.reach for reply in ready)), self._cache.length)
        variant = Variant(
            shapes=any(reply.request.shapes for reply in ready),
            cuts=any(reply.request.cuts for reply in ready),
            top=any(reply.request.top > 0 for reply in ready),
        )
        self._steps.run(self._cache, self._slots, rows, length, variant)
        report = self._slots.report[:rows, : REPORT if variant.top else 3]
        arrived = None
        if self._cuda:
            there = torch.empty(report.shape, dtype=report.dtype, pin_memory=True)
            there.copy_(report.contiguous(), non_blocking=True)
            report, arrived = there, torch.cuda.Event()
            arrived.record()
        for reply in ready:
            reply.begun += 1
        self._flights.append(Flight([(reply.slot, reply) for reply in ready], report, arrived))
        return True

    def _close_ranks(self, ready: list[Reply]) -> None:
        """Moves the last replies to the front where that makes the steps smaller, keeping what free slots hold."""
        assert self._cache is not None and self._slots is not None
        enough = batch_size(len(ready))
        if batch_size(max(reply.slot for reply in ready) + 1) <= enough:
            return
        for reply in [reply for reply in ready if reply.slot >= enough]:
            target = next((slot for slot in range(enough) if slot not in self._replies), None)
            if target is None:
                return
            source, there = reply.slot, self._prefixes.slots[target]
            self._cache.swap(source, target, max(reply.reach, there.count if there else 0))
            self._slots.move(source, target)
            self._prefixes.slots[source], self._prefixes.slots[target] = there, self._prefixes.slots[source]
            del self._replies[source]
            reply.slot = target
            self._replies[target] = reply

    def _collect(self, ahead: int) -> None:
        """Looks at what was drawn, but for the last `ahead` steps."""
        while len(self._flights) > ahead:
            flight = self._flights.popleft()
            if flight.arrived is not None:
                flight.arrived.synchronize()
            table = flight.report.tolist()
            for row, reply in flight.rows:
                if reply.done:
                    continue
                reply.take(table[row])
                self.sampled_tokens += 1
                if reply.broken:
                    self._end(reply, reply.failure(NOT_FINITE))
                    continue
                if reply.request.stream:
                    self._outs.append(reply.event())
                finish = reply.finish
                if finish is not None:
                    self._end(reply, reply.out(finish, self._count()))

    def _end(self, reply: Reply, out: Out) -> None:
        """The slot is free, and keeps what was computed in it."""
        assert self._slots is not None
        reply.done = True
        del self._replies[reply.slot]
        self._slots.stop(reply.slot)
        if reply.broken:
            self._prefixes.slots[reply.slot] = None
        else:
            known = reply.known()
            self._prefixes.hold(reply.slot, reply.request.namespace, known, len(known))
        self._outs.append(out)

    def _empty(self) -> None:
        for slot in self._replies:
            self._prefixes.slots[slot] = None
        for gone in (self._waiting, self._waits_for, self._replies, self._flights):
            gone.clear()
        self._outs = []
        if self._slots is not None:
            self._slots.alive.zero_()
        self._steps.drop()


def batch_size(rows: int) -> int:
    """Steps are made for few sizes: 1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, …"""
    power = 1 << (rows - 1).bit_length()
    return power * 3 // 4 if power >= 32 and rows <= power * 3 // 4 else power

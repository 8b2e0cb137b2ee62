"""Where replies lie: the cache, what the device knows of its slots, and which tokens each of them has keys of."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from .decoder import Decoder
from .kv_cache import KvCache, KvShape, Size, token_budget
from .prefixes import Found, Prefixes
from .replies import Reply
from .request import Request
from .room import Room
from .slots import Slots


class Places:
    """`most`: slots at most; `cache_tokens`: keys that may be kept, where somebody says so."""

    def __init__(self, decoder: Decoder, most: int, cache_tokens: int | None) -> None:
        self.cache = KvCache(KvShape.of(decoder.config, decoder.dtype, decoder.device))
        self.slots = Slots(most, decoder.vocabulary, decoder.device)
        self.prefixes = Prefixes()
        #: By slot.
        self.replies: dict[int, Reply] = {}
        #: Some reply computed what is not finite.
        self._spoilt = False
        self._room = Room(most, token_budget(self.cache.shape, cache_tokens))

    def has_room(self, request: Request, others: Iterable[int], waiting: int, moving: Callable[[], None]) -> bool:
        """Whether a slot that is long enough is free, after giving the cache another size where that helps; `moving` is called
        before. `others`: the keys that those need which wait."""
        size = self._room.better(self.cache.size, request.room, others, len(self.replies), waiting)
        if size is not None:
            moving()
            self._remake(size)
        return len(self.replies) < self.cache.slots and request.room <= self.cache.spare

    def _remake(self, size: Size) -> None:
        keep = self._room.keeps(self.cache.size, size)
        while True:
            try:
                self.cache.remake(size, keep)
                break
            except torch.OutOfMemoryError:
                if self.replies:
                    # They go on in what they have; when they are through there is more room.
                    return
                if size.slots == 1 and not keep:
                    raise
                size = size if keep else Size(size.slots // 2, size.length)
                keep = False
        self.prefixes.resize(size.slots, keep)

    def take(self, request: Request, found: Found | None) -> Reply:
        """A free slot for the request, with the keys that others have computed for it already: those of `found`."""
        free = [slot for slot in range(self.cache.slots) if slot not in self.replies]
        slot = self.prefixes.choose(free, found)
        saved = found.count if found else 0
        if found:
            self.cache.copy(found.slot, slot, saved)
        self.prefixes.hold(slot, request.namespace, request.prompt, saved)
        reply = self.replies[slot] = Reply(request, slot, saved)
        return reply

    def leave(self, reply: Reply) -> None:
        """The slot is free, and keeps what was computed in it."""
        del self.replies[reply.slot]
        self.slots.stop(reply.slot)
        if reply.broken:
            self.prefixes.drop(reply.slot)
            self.cache.wipe(reply.slot)
            self._spoilt = True
        else:
            known = reply.known()
            self.prefixes.hold(reply.slot, reply.request.namespace, known, len(known))

    def forget(self) -> None:
        """The weights have changed, and nobody is under way: what was computed with the old ones is void."""
        self.prefixes.resize(self.cache.slots, keep=False)
        if self._spoilt:
            # If it was the weights, rows without a reply have left the like in slots of others.
            self.cache.wipe()
            self._spoilt = False

    def clear(self) -> None:
        """Nobody is left, and what they computed is in doubt."""
        for slot in self.replies:
            self.prefixes.drop(slot)
        self.replies.clear()
        self.slots.alive.zero_()

    def close_ranks(self, ready: list[Reply], enough: int) -> None:
        """Moves replies into the first `enough` slots, keeping what free slots hold."""
        for reply in [reply for reply in ready if reply.slot >= enough]:
            target = next((slot for slot in range(enough) if slot not in self.replies), None)
            if target is None:
                return
            source = reply.slot
            self.cache.swap(source, target, max(reply.reach, self.prefixes.count(target)))
            self.slots.move(source, target)
            self.prefixes.swap(source, target)
            del self.replies[source]
            reply.slot = target
            self.replies[target] = reply

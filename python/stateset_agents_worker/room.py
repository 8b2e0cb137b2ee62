"""How large the cache has to be for the requests that run and wait, within the memory it may take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .kv_cache import Size, rounded_length

#: Slots that are made even for few requests: those that are free keep what they computed.
FEWEST_SLOTS = 8


@dataclass(frozen=True)
class Room:
    """`most`: slots at most; `budget`: tokens that keys may be kept of."""

    most: int
    budget: int

    def better(self, now: Size, room: int, others: Iterable[int], running: int, waiting: int) -> Size | None:
        """The size the cache should have before a request that needs `room` keys can begin; None where it is right as it is, or
        where nothing better can be had before running replies end. `others`: what those behind it need."""
        need = rounded_length(room)
        wanted = self._slots(need, running + waiting)
        if need <= now.length and (now.slots >= wanted or 0 < running < now.slots):
            return None
        length = max([need, *map(rounded_length, others)])
        if running > 0:
            length = max(length, now.length)
        if self._slots(length, running + waiting) < wanted:
            # The longest of them would cost the others their slots; its turn comes.
            length = max(need, now.length) if running > 0 else need
        size = Size(max(1, self._slots(length, running + waiting)), length)
        if running == 0:
            return size
        if length == now.length and size.slots <= now.slots:
            return None
        return size if self.keeps(now, size) and size.slots >= now.slots else None

    def keeps(self, now: Size, then: Size) -> bool:
        """Whether both fit together, so that what is kept can be taken over."""
        return then.slots >= now.slots and then.length >= now.length and now.tokens + then.tokens <= self.budget

    def _slots(self, length: int, requests: int) -> int:
        asked = max(FEWEST_SLOTS, requests)
        return min(self.most, 1 << (asked - 1).bit_length(), self.budget // length)

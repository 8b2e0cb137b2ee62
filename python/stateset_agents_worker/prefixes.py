"""Which tokens each slot has keys of, so that a prompt that begins with them need not compute them again. A slot that is free keeps
them until somebody takes it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Held:
    namespace: str
    tokens: np.ndarray
    #: Of `tokens`, how many have keys.
    count: int
    used: int = 0


@dataclass(frozen=True)
class Found:
    slot: int
    count: int


def common(a: np.ndarray, b: np.ndarray) -> int:
    """How many tokens both begin with."""
    shorter = min(len(a), len(b))
    differs = a[:shorter] != b[:shorter]
    first = int(differs.argmax()) if shorter else 0
    return first if shorter and differs[first] else shorter


class Prefixes:
    def __init__(self) -> None:
        self.slots: list[Held | None] = []
        self._uses = 0

    def resize(self, slots: int, keep: bool) -> None:
        kept = self.slots[:slots] if keep else []
        self.slots = kept + [None] * (slots - len(kept))

    def hold(self, slot: int, namespace: str, tokens: np.ndarray, count: int) -> None:
        self._uses += 1
        self.slots[slot] = Held(namespace, tokens, count, self._uses)

    def grown(self, slot: int, count: int) -> None:
        held = self.slots[slot]
        assert held is not None
        held.count = count

    def find(self, namespace: str, tokens: np.ndarray) -> Found | None:
        """The slot with the most of the first tokens."""
        best: Found | None = None
        for slot, held in enumerate(self.slots):
            if held is None or held.namespace != namespace:
                continue
            most = min(held.count, len(tokens))
            if best is not None and most <= best.count:
                continue
            count = common(held.tokens[:most], tokens)
            if count > (best.count if best else 0):
                best = Found(slot, count)
        return best

    def choose(self, free: list[int], found: Found | None) -> int:
        """The slot for a new reply: the one it goes on from, else an empty one, else the one that was not used for longest."""
        if found is not None and found.slot in free:
            held = self.slots[found.slot]
            if held is not None and held.count == found.count:
                return found.slot
        return min(free, key=lambda slot: (held.used if (held := self.slots[slot]) else 0, slot))

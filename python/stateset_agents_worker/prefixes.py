"""Which tokens each slot has keys of, so that a prompt that begins with them need not compute them again. A slot that is free keeps
them until somebody takes it. One table for all slots: many requests that come together are each compared with all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

#: Tokens that are compared first: few slots begin like another for longer, and only those are looked at further.
GLANCE = 64


@dataclass(frozen=True)
class Found:
    slot: int
    count: int


@dataclass(frozen=True)
class Look:
    """What slots have of a prompt: keys that are there, and those that will be when the slot's own prompt is through."""

    found: Found | None
    coming: Found | None


class Prefixes:
    def __init__(self) -> None:
        #: [slots, longest], −1 where a slot has no more tokens.
        self._tokens = np.empty((0, 0), dtype=np.int64)
        #: Of each slot: its tokens, how many of them have keys, when it was taken last, and its namespace.
        self._lengths, self._counts, self._used = (np.zeros(0, dtype=np.int64) for _ in range(3))
        self._namespaces = np.zeros(0, dtype=object)
        self._uses = 0

    def resize(self, slots: int, keep: bool) -> None:
        kept = min(slots, len(self._lengths)) if keep else 0
        # As wide as it has to be: of few long slots, many short ones may be made.
        width = int(self._lengths[:kept].max(initial=0))
        tokens = np.full((slots, width), -1, dtype=np.int64)
        tokens[:kept] = self._tokens[:kept, :width]
        self._tokens = tokens
        for name in ("_lengths", "_counts", "_used", "_namespaces"):
            before = getattr(self, name)
            column = np.zeros(slots, dtype=before.dtype)
            column[:kept] = before[:kept]
            setattr(self, name, column)

    def hold(self, slot: int, namespace: str, tokens: np.ndarray, count: int) -> None:
        self._uses += 1
        length = len(tokens)
        if length > self._tokens.shape[1]:
            wider = np.full((len(self._tokens), max(length, 2 * self._tokens.shape[1])), -1, dtype=np.int64)
            wider[:, : self._tokens.shape[1]] = self._tokens
            self._tokens = wider
        self._tokens[slot, :length], self._tokens[slot, length:] = tokens, -1
        self._lengths[slot], self._counts[slot], self._used[slot] = length, count, self._uses
        self._namespaces[slot] = namespace

    def grown(self, slot: int, count: int) -> None:
        self._counts[slot] = count

    def count(self, slot: int) -> int:
        return int(self._counts[slot])

    def drop(self, slot: int) -> None:
        self._lengths[slot] = self._counts[slot] = self._used[slot] = 0
        self._tokens[slot] = -1

    def swap(self, a: int, b: int) -> None:
        for column in (self._tokens, self._lengths, self._counts, self._used, self._namespaces):
            column[[a, b]] = column[[b, a]]

    def look(self, namespace: str, tokens: np.ndarray) -> Look:
        alike = self._alike(namespace, tokens)
        # A prompt's last token is run by the reply itself, and gives its keys to nobody who waits.
        computing = self._counts < self._lengths - 1
        return Look(_most(np.minimum(alike, self._counts)), _most(np.where(computing, np.minimum(alike, self._lengths - 1), 0)))

    def choose(self, free: list[int], found: Found | None) -> int:
        """The slot for a new reply: the one it goes on from, else an empty one, else the one that was not used for longest."""
        if found is not None and found.slot in free and self.count(found.slot) == found.count:
            return found.slot
        return min(free, key=lambda slot: (self._used[slot], slot))

    def _alike(self, namespace: str, tokens: np.ndarray) -> np.ndarray:
        """Of each slot, with how many of `tokens` it begins."""
        alike = np.zeros(len(self._lengths), dtype=np.int64)
        mine = np.flatnonzero((self._namespaces == namespace) & (self._lengths > 0))
        begin, width = 0, min(len(tokens), self._tokens.shape[1])
        while len(mine) > 0 and begin < width:
            end = width if begin else min(GLANCE, width)
            differs = self._tokens[mine, begin:end] != tokens[begin:end]
            same = ~differs.any(1)
            alike[mine] = begin + np.where(same, end - begin, differs.argmax(1))
            mine, begin = mine[same], end
        return alike


def _most(counts: np.ndarray) -> Found | None:
    slot = int(counts.argmax()) if len(counts) else 0
    return Found(slot, int(counts[slot])) if len(counts) and counts[slot] > 0 else None

"""Attention of prompts: pieces of them stand side by side in one row, each with its keys in a slot of its own. Pieces of about one size
are computed as one batch, since a device waits longer for a hundred small calls than it computes. To be given to attention.use()."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from .kv_cache import KvCache
from .transfer import to_device

#: Numbers that one mask has at most. Keys and values that are copied for a batch are at most those of all slots in one layer.
MASK = 1 << 26
#: Queries that may always go into one batch, however many keys they have.
FEWEST = 16


@dataclass(frozen=True)
class Piece:
    """Tokens `start` to `start + count` of the prompt in a slot."""

    slot: int
    start: int
    count: int

    @property
    def end(self) -> int:
        return self.start + self.count


@dataclass(frozen=True)
class Batch:
    """Pieces that are computed together, as if all had as many queries and keys as the longest."""

    #: Where the queries stand in the row [pieces × queries]; those too many repeat the last of their piece.
    take: Tensor
    #: Which of them are not too many, and where in the row they belong.
    real: Tensor
    to: Tensor
    pieces: int
    #: None where the pieces begin their prompts: they see their own keys alone, in order.
    slots: Tensor | None
    keys: int
    mask: Tensor | None


class Prefill:
    def __init__(self, cache: KvCache, pieces: list[Piece]) -> None:
        self.cache = cache
        self.device = cache.shape.device
        counts = [piece.count for piece in pieces]
        self._pieces = list(zip(np.cumsum([0, *counts]).tolist(), pieces))
        slot = np.repeat([piece.slot for piece in pieces], counts)
        place = np.concatenate([np.arange(piece.start, piece.end) for piece in pieces])
        self._slot, self._place = to_device(np.stack([slot, place]), self.device).unbind()
        self._batches: dict[int | None, list[Batch]] = {}

    def __call__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scaling: float,
        window: int | None,
        dropout: float,
    ) -> Tensor:
        layer: int = module.layer_idx  # type: ignore[assignment]
        keys, values = self.cache.keys(layer), self.cache.values(layer)
        query, key, value = query[0], key[0], value[0]
        keys[self._slot, :, self._place] = key.transpose(0, 1)
        values[self._slot, :, self._place] = value.transpose(0, 1)
        group = query.shape[0] // key.shape[0]
        if window not in self._batches:
            # The same in every layer of one window.
            self._batches[window] = list(self._batched(window, group))
        out = torch.empty_like(query)
        for batch in self._batches[window]:
            asked = _side_by_side(query, batch)
            if batch.slots is None:
                own, worth = (_side_by_side(of.repeat_interleave(group, 0), batch) for of in (key, value))
                # No mask: the fastest kernels take it. What is too many stands behind what is not, where nobody looks.
                seen = scaled_dot_product_attention(asked, own, worth, is_causal=True, scale=scaling)
            else:
                # The query heads that share a key head stand below each other as queries, so that no key is repeated.
                seen = scaled_dot_product_attention(
                    asked.reshape(batch.pieces, key.shape[0], -1, asked.shape[3]),
                    keys[batch.slots, :, : batch.keys],
                    values[batch.slots, :, : batch.keys],
                    attn_mask=batch.mask,
                    scale=scaling,
                ).reshape(asked.shape)
            out[:, batch.to] = seen.transpose(0, 1).flatten(1, 2)[:, batch.real]
        return out.transpose(0, 1)[None]

    def _batched(self, window: int | None, group: int) -> Iterator[Batch]:
        alike: dict[tuple[int, int], list[tuple[int, Piece]]] = defaultdict(list)
        for at, piece in self._pieces:
            if piece.start == 0 and (window is None or window >= piece.count):
                alike[0, _size(piece.count)].append((at, piece))
                continue
            most = max(FEWEST, MASK // (group * piece.end))
            for begin in range(0, piece.count, most):
                part = Piece(piece.slot, piece.start + begin, min(most, piece.count - begin))
                alike[_size(part.end), _size(part.count)].append((at + begin, part))
        for (seen, asked), members in alike.items():
            most = len(members) if seen == 0 else max(1, MASK // (group * asked * seen))
            for begin in range(0, len(members), most):
                yield self._batch(members[begin : begin + most], window, group, fresh=seen == 0)

    def _batch(self, members: list[tuple[int, Piece]], window: int | None, group: int, fresh: bool) -> Batch:
        at = np.array([at for at, _ in members])
        slot, start, count, end = np.array([(p.slot, p.start, p.count, p.end) for _, p in members]).T
        each = np.arange(count.max())
        within = np.minimum(each[None], count[:, None] - 1)
        take = at[:, None] + within
        real = np.flatnonzero(each[None] < count[:, None])
        sent = to_device(np.concatenate([take.ravel(), real, take.ravel()[real], slot]), self.device)
        taken, real_at, to, slots = sent.split([take.size, len(real), len(real), len(members)])
        if fresh:
            return Batch(taken, real_at, to, len(members), None, 0, None)
        # Kernels want rows of masks that are aligned; lengths of the cache are, so there is room.
        keys = -(-int(end.max()) // 8) * 8
        row = to_device(start[:, None] + within, self.device)[:, None, :, None]
        column = torch.arange(keys, device=self.device)
        mask = column <= row
        if window is not None:
            mask &= row - column < window
        return Batch(taken, real_at, to, len(members), slots, keys, mask.repeat(1, 1, group, 1))


@contextmanager
def without_plans() -> Iterator[None]:
    """cuDNN's attention makes a plan for every new shape, which takes longer than what is then computed by it: prompts have all shapes."""
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def _side_by_side(of: Tensor, batch: Batch) -> Tensor:
    """[heads, tokens, D] → [pieces, heads, queries, D]"""
    return of[:, batch.take].unflatten(1, (batch.pieces, -1)).transpose(0, 1)


def _size(count: int) -> int:
    """Pieces of one size go together: powers of two, from 16."""
    return 1 << max(4, (count - 1).bit_length())

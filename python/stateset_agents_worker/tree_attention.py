"""Attention within a token tree: a token sees those before it on its path. FlexAttention on CUDA, a dense mask elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from .attention import plain
from .transfer import to_device
from .tree import BLOCK, Layout

#: FlexAttention's kernels want heads of at least this width.
NARROWEST = 16


@dataclass(frozen=True)
class Blocks:
    """Which blocks of keys (columns) a block of queries (rows) looks at: some of it, or all of it."""

    partial: NDArray[np.bool_]
    full: NDArray[np.bool_]


def block_table(layout: Layout, window: int | None) -> Blocks:
    """
    In closed form, from the extremes of each block. Depth first, keys of an earlier block see some query of a later one when the longest
    of their subtrees reaches its first row, and all of it when the shortest reaches past its last.
    """
    end = layout.end.reshape(-1, BLOCK)
    depth = layout.depth.reshape(-1, BLOCK)
    number = np.arange(len(end))
    first, past = number * BLOCK, (number + 1) * BLOCK
    earlier = number[:, None] > number[None, :]
    some = (earlier & (end.max(1)[None, :] > first[:, None])) | np.eye(len(end), dtype=bool)
    full = earlier & (end.min(1)[None, :] >= past[:, None])
    if window is not None:
        # Where a block is full but for the window, its rows are one path and the extremes of depth decide exactly; elsewhere
        # a block too many is only computed in vain.
        some &= depth.min(1)[:, None] - depth.max(1)[None, :] < window
        full &= depth.max(1)[:, None] - depth.min(1)[None, :] < window
    return Blocks(some & ~full, full & some)


def _ordered(table: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Per row: how many columns are set, and which, first to last; what lies behind them means nothing."""
    rows, columns = np.nonzero(table)
    counts = table.sum(1)
    begin = np.concatenate([[0], np.cumsum(counts)[:-1]])
    indices = np.zeros(table.shape, np.int32)
    indices[rows, np.arange(len(rows)) - begin[rows]] = columns
    return counts.astype(np.int32), indices


def block_mask(layout: Layout, window: int | None, end: Tensor, depth: Tensor) -> BlockMask:
    """`end` and `depth` are the layout's, on the device."""
    blocks = block_table(layout, window)
    parts = [part for table in (blocks.partial, blocks.full, blocks.partial.T, blocks.full.T) for part in _ordered(table)]
    # One copy to the device for all eight.
    flat = to_device(np.concatenate([part.reshape(-1) for part in parts]), end.device)
    pieces = flat.split([part.size for part in parts])
    tensors = [piece.view(1, 1, *part.shape) for piece, part in zip(pieces, parts)]

    def seen(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (k <= q) & (q < end[k])

    def seen_within(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (k <= q) & (q < end[k]) & (depth[q] - depth[k] < window)

    return BlockMask(
        seq_lengths=(layout.size, layout.size),
        kv_num_blocks=tensors[0],
        kv_indices=tensors[1],
        full_kv_num_blocks=tensors[2],
        full_kv_indices=tensors[3],
        q_num_blocks=tensors[4],
        q_indices=tensors[5],
        full_q_num_blocks=tensors[6],
        full_q_indices=tensors[7],
        BLOCK_SIZE=(BLOCK, BLOCK),
        mask_mod=seen if window is None else seen_within,
    )


def dense_mask(end: Tensor, depth: Tensor, window: int | None) -> Tensor:
    row = torch.arange(len(end), device=end.device)
    q, k = row[:, None], row[None, :]
    mask = (k <= q) & (q < end[None, :])
    return mask if window is None else mask & (depth[:, None] - depth[None, :] < window)


class TreeAttention:
    """What attention.use() is given for one layout. Masks are made once for each window that a layer has."""

    def __init__(self, layout: Layout, device: torch.device, flex: bool, windows: set[int | None], compiled: bool = True) -> None:
        end, depth = to_device(np.stack([layout.end, layout.depth]).astype(np.int32), device).unbind()
        self.flex = flex
        #: Whether the blocks around it are to be compiled.
        self.compiled = compiled
        # A window that no path outgrows changes nothing, and needs no mask of its own.
        longest = int(layout.depth.max()) + 1
        # Nor does a tree of one path need a mask: all that is before a token is on its path.
        one_path = bool((layout.end[: layout.count] >= layout.count).all())
        self.masks: dict[int | None, BlockMask | Tensor | None] = {None: None} if one_path else {}
        for window in windows:
            narrow = window if window is not None and window < longest else None
            if narrow not in self.masks:
                self.masks[narrow] = block_mask(layout, narrow, end, depth) if flex else dense_mask(end, depth, narrow)
            self.masks[window] = self.masks[narrow]

    def __call__(
        self, module: nn.Module, query: Tensor, key: Tensor, value: Tensor, scaling: float, window: int | None, dropout: float
    ) -> Tensor:
        mask = self.masks[window]
        if mask is None or not self.flex:
            return plain(query, key, value, mask, scaling, dropout)
        return _flex(query, key, value, block_mask=mask, scale=scaling, enable_gqa=query.shape[1] != key.shape[1]).transpose(1, 2)


@cache
def _compiled() -> Callable[..., Tensor]:
    """Made when it is first needed: to begin with, torch.compile reads a compiler in, which is a quarter of what a worker reads."""
    return torch.compile(flex_attention, dynamic=False)


def _flex(query: Tensor, key: Tensor, value: Tensor, **options: object) -> Tensor:
    """Inside a block that is compiled it becomes part of that; elsewhere it is compiled by itself, since uncompiled it is dense."""
    if torch.compiler.is_compiling():
        return flex_attention(query, key, value, **options)
    return _compiled()(query, key, value, **options)

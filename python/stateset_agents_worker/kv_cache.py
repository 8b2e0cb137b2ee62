"""Keys and values of the replies that are sampled: one slot each, all of one length, at addresses that stay until the cache is made
anew, as CUDA graphs need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

#: Of the device's memory that is free when the cache is first needed, what keys and values may take.
SHARE_OF_FREE = 0.5
#: On CPU, where nobody asks for so many tokens.
CPU_BYTES = 1 << 30
#: Lengths are multiples of this, so that masks are aligned and few lengths occur.
STEP = 128


@dataclass(frozen=True)
class KvShape:
    layers: int
    heads: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device

    @staticmethod
    def of(config: Any, dtype: torch.dtype, device: torch.device) -> KvShape:
        """`config`: that of a transformers model."""
        text = config.get_text_config()
        queries = text.num_attention_heads
        head_dim = getattr(text, "head_dim", None) or text.hidden_size // queries
        heads = getattr(text, "num_key_value_heads", None) or queries
        return KvShape(text.num_hidden_layers, heads, head_dim, dtype, device)

    @property
    def bytes_per_token(self) -> int:
        return 2 * self.layers * self.heads * self.head_dim * self.dtype.itemsize


@dataclass(frozen=True)
class Size:
    slots: int
    length: int

    @property
    def tokens(self) -> int:
        return self.slots * self.length


class KvCache:
    def __init__(self, shape: KvShape) -> None:
        self.shape = shape
        self.slots = 0
        self.length = 0
        #: [layers, keys and values, slots, heads, length, head_dim]
        self._data = self._room(0, 0)

    @property
    def size(self) -> Size:
        return Size(self.slots, self.length)

    @property
    def bytes(self) -> int:
        return self._data.nbytes

    @property
    def spare(self) -> int:
        """The last place of each slot belongs to nobody: rows without a reply write there."""
        return self.length - 1

    def keys(self, layer: int) -> Tensor:
        """[slots, heads, length, head_dim]"""
        return self._data[layer, 0]

    def values(self, layer: int) -> Tensor:
        return self._data[layer, 1]

    def _room(self, slots: int, length: int) -> Tensor:
        s = self.shape
        # Zeros: what nobody wrote is masked, but must be finite.
        return torch.zeros(
            s.layers, 2, slots, s.heads, length, s.head_dim, dtype=s.dtype, device=s.device
        )

    def remake(self, size: Size, keep: bool) -> None:
        """Another size; with `keep` what the slots hold stays in them, and old and new exist together for a moment."""
        old = self._data
        if not keep:
            old = self._data = self._room(0, 0)
            self.slots = self.length = 0
        new = self._room(size.slots, size.length)
        if keep and old.numel() > 0:
            slots, known = min(size.slots, self.slots), min(size.length, self.length) - 1
            new[:, :, :slots, :, :known].copy_(old[:, :, :slots, :, :known])
        self._data = new
        self.slots, self.length = size.slots, size.length

    def wipe(self, slot: int | None = None) -> None:
        """Zeros, in one slot or in all: what is not finite stays so under a mask."""
        (self._data if slot is None else self._data[:, :, slot]).zero_()

    def copy(self, source: int, target: int, count: int) -> None:
        """The first `count` tokens of one slot into another."""
        if source != target and count > 0:
            self._data[:, :, target, :, :count].copy_(self._data[:, :, source, :, :count])

    def swap(self, a: int, b: int, count: int) -> None:
        first = self._data[:, :, a, :, :count].clone()
        self._data[:, :, a, :, :count].copy_(self._data[:, :, b, :, :count])
        self._data[:, :, b, :, :count].copy_(first)


def token_budget(shape: KvShape, asked: int | None) -> int:
    """How many tokens keys and values may be kept of."""
    if asked is not None:
        return asked
    if shape.device.type != "cuda":
        return CPU_BYTES // shape.bytes_per_token
    free, _ = torch.cuda.mem_get_info(shape.device)
    # What the allocator holds and nobody uses is free to us, too.
    free += torch.cuda.memory_reserved(shape.device) - torch.cuda.memory_allocated(shape.device)
    return int(SHARE_OF_FREE * free) // shape.bytes_per_token


def rounded_length(tokens: int) -> int:
    """Room for so many tokens and the spare place. Coarser the longer, so that a cache is seldom made anew."""
    step = STEP
    while tokens >= 8 * step:
        step *= 2
    return -(-(tokens + 1) // step) * step

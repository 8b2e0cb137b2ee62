"""A name for weights: equal numbers have equal names, on every device and however they are sharded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import torch
from torch import Tensor

#: Numbers looked at at a time.
_PIECE = 1 << 24


def digest(named: Iterable[tuple[str, Tensor]]) -> str:
    """Each tensor is folded where it lies, in whole numbers that wrap, so that no order of adding changes the sum."""
    found = hashlib.sha256()
    for name, tensor in named:
        found.update(f"{name}:{list(tensor.shape)}:{_fold(tensor.detach())};".encode())
    return found.hexdigest()


def _fold(tensor: Tensor) -> int:
    flat = tensor.reshape(-1)
    total = 0
    for at in range(0, flat.numel(), _PIECE):
        piece = flat[at : at + _PIECE]
        bits = piece.float().view(torch.int32).long() if piece.is_floating_point() else piece.long()
        place = torch.arange(at, at + len(bits), device=bits.device)
        # An odd factor for each place, spread over all bits.
        factor = (place * -7046029254386353131) ^ (place >> 7) | 1
        total += int(((bits + 0x9E3779B9) * factor).sum())
    return total & 0xFFFF_FFFF_FFFF_FFFF

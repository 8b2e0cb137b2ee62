"""The model's blocks as torch.compile makes them: the many small operations around the matrix products become few. Only while a step is
captured; otherwise the blocks are as they were."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


class CompiledBlocks:
    def __init__(self, blocks: list[nn.Module]) -> None:
        self.on = True
        self.in_use = False
        self._blocks = blocks
        #: One program for all blocks of a class and all batch sizes: parameters and rows are its inputs.
        self._compiled: dict[type, Callable[..., Any]] = {}

    @contextmanager
    def use(self) -> Iterator[None]:
        before = [block.__dict__.get("forward") for block in self._blocks]
        self.in_use = True
        try:
            for block in self._blocks:
                kind = type(block)
                if kind not in self._compiled:
                    self._compiled[kind] = torch.compile(kind.forward, dynamic=True)
                block.forward = types.MethodType(self._compiled[kind], block)  # type: ignore[method-assign]
            yield
        finally:
            self.in_use = False
            for block, forward in zip(self._blocks, before, strict=True):
                if forward is None:
                    del block.forward
                else:
                    block.forward = forward  # type: ignore[method-assign]

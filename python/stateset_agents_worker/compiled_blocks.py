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
        changed = [(block, block.__dict__.pop("forward", None)) for block in self._blocks]
        changed += [(module, module.__dict__.pop("forward")) for module in self._overridden()]
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
            for module, forward in changed:
                module.__dict__.pop("forward", None)
                if forward is not None:
                    module.forward = forward  # type: ignore[method-assign]

    def _overridden(self) -> list[nn.Module]:
        """Modules to which passes over trees gave a forward of their own: in sampling it does what the class does, but each is
        another function, for which the compiler would make another program."""
        package = __name__.rpartition(".")[0]
        inner = [module for block in self._blocks for module in block.modules() if module is not block]
        return [m for m in inner if getattr(m.__dict__.get("forward"), "__module__", "").startswith(package)]

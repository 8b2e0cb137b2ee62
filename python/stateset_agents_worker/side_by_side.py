"""Linear layers that get one input, as one product: a decoding step has few rows, and for those a product costs more in being begun than
in its numbers. Only while a step is captured; otherwise the layers are as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

#: Names under which transformers' models have layers that get one input, in the order in which they are called.
TOGETHER = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"))


class First(nn.Module):
    """Called first, it computes what all of them give."""

    def __init__(self, weight: Tensor, bias: Tensor | None, sizes: list[int]) -> None:
        super().__init__()
        self.register_buffer("weight", weight, persistent=False)
        self.register_buffer("bias", bias, persistent=False)
        self.sizes = sizes
        self.given: Tensor | None = None
        self.made: tuple[Tensor, ...] = ()

    def forward(self, x: Tensor) -> Tensor:
        self.given = x
        self.made = linear(x, self.weight, self.bias).split(self.sizes, -1)
        return self.made[0]


class Other(nn.Module):
    """Finds there what it would compute, unless it gets another input after all."""

    def __init__(self, first: First, place: int, plain: nn.Linear) -> None:
        super().__init__()
        # In lists: neither is a part of this one.
        self.first, self.place, self.plain = [first], place, [plain]

    @property
    def weight(self) -> Tensor:
        """PEFT asks its precision."""
        return self.plain[0].weight

    def forward(self, x: Tensor) -> Tensor:
        first = self.first[0]
        return first.made[self.place] if x is first.given else self.plain[0](x)


class SideBySide:
    def __init__(self, blocks: list[nn.Module]) -> None:
        #: The module that holds a layer, the layer's name there, and what stands in for it.
        self._replaced: list[tuple[nn.Module, str, nn.Module]] = []
        for block in blocks:
            for module in block.modules():
                for names in TOGETHER:
                    members = [getattr(module, name, None) for name in names]
                    for holders in _holders(module, names, members):
                        self._join(holders)

    @contextmanager
    def use(self) -> Iterator[None]:
        kept = [(holder, name, holder._modules[name]) for holder, name, _ in self._replaced]
        try:
            for holder, name, other in self._replaced:
                holder._modules[name] = other
            yield
        finally:
            for holder, name, layer in kept:
                holder._modules[name] = layer
            for _, _, other in self._replaced:
                if isinstance(other, First):
                    other.given, other.made = None, ()

    def _join(self, holders: list[tuple[nn.Module, str]]) -> None:
        layers: list[Any] = [holder._modules.get(name) for holder, name in holders]
        if any(type(layer) is not nn.Linear for layer in layers):
            return
        like = {(layer.in_features, layer.bias is None, layer.weight.dtype, layer.weight.device) for layer in layers}
        if len(like) > 1:
            return
        bias = None if layers[0].bias is None else _one([layer.bias for layer in layers])
        first = First(_one([layer.weight for layer in layers]), bias, [layer.out_features for layer in layers])
        for place, ((holder, name), layer) in enumerate(zip(holders, layers)):
            self._replaced.append((holder, name, Other(first, place, layer) if place else first))


def _holders(module: nn.Module, names: tuple[str, ...], members: list[Any]) -> Iterator[list[tuple[nn.Module, str]]]:
    """Of the layers themselves, or of the base and of the first half of the adapter that PEFT has put around each."""
    if any(member is None for member in members):
        return
    if not any(hasattr(member, "base_layer") for member in members):
        yield [(module, name) for name in names]
    elif all(hasattr(member, "base_layer") for member in members):
        yield [(member, "base_layer") for member in members]
        yield [(member.lora_A, "default") for member in members]


@torch.no_grad()
def _one(parameters: list[nn.Parameter]) -> Tensor:
    """All of them in one piece of memory, where each stays what it was."""
    whole = torch.cat([p.data for p in parameters])
    ends = [0, *accumulate(len(p) for p in parameters)]
    for p, (begin, end) in zip(parameters, pairwise(ends)):
        p.data = whole[begin:end]
    return whole

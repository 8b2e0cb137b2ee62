"""What is trained, in f32: parameters, gradients, and how they reach the 16 bits that a GPU computes with."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from .ranks import Ranks


def local(tensor: Tensor) -> Tensor:
    """This rank's part of it."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


class Masters:
    """
    In the order of `names`, which are those of files; the value head's come last. Where computing is in f32, or sharded, the parameters
    are the masters. Else a parameter holds the master rounded, and its gradient is added to an f32 one as soon as there is one.
    """

    def __init__(self, trained: list[tuple[str, nn.Parameter]], compute: torch.dtype, ranks: Ranks) -> None:
        self.ranks = ranks
        self.names = [name for name, _ in trained]
        self.parameters = [p for _, p in trained]
        self._compute = compute
        self._apart = compute != torch.float32 and ranks.world == 1
        #: Where the masters lie apart: they and their gradients.
        self._masters: list[Tensor] = []
        self._gradients: list[Tensor | None] = []
        if self._apart:
            for index, p in enumerate(self.parameters):
                self._masters.append(p.detach().float())
                self._gradients.append(None)
                p.data = self._masters[index].to(compute)
                p.register_post_accumulate_grad_hook(self._collector(index))
        self.value: tuple[nn.Parameter, nn.Parameter] | None = None

    def _collector(self, index: int) -> Any:
        def collect(p: Tensor) -> None:
            gradient, have = p.grad, self._gradients[index]
            p.grad = None
            if gradient is None:
                return
            if have is None:
                self._gradients[index] = gradient.float()
            else:
                have.add_(gradient)

        return collect

    @property
    def bytes_apart(self) -> int:
        return sum(master.nbytes for master in self._masters)

    @property
    def policy(self) -> int:
        """How many of them are no value head's."""
        return len(self.names) - (2 if self.value else 0)

    def add_value_head(self, hidden: int) -> None:
        """At zero. It is f32 and whole on every rank: it is small, and what it learns from is a difference of rounding's size."""
        zeros = [nn.Parameter(torch.zeros(shape, device=self.ranks.device)) for shape in ((1, hidden), (1,))]
        self.value = (zeros[0], zeros[1])
        self.names += ["value.weight", "value.bias"]
        self.parameters += zeros

    def weights(self) -> list[Tensor]:
        """This rank's parts, f32."""
        if self._apart:
            return self._masters + [p.data for p in self.parameters[len(self._masters) :]]
        return [local(p.detach()) for p in self.parameters]

    def gradients(self) -> list[Tensor]:
        """This rank's parts, f32; zeros where nothing has come yet."""
        found = []
        for index, (p, weight) in enumerate(zip(self.parameters, self.weights())):
            if index < len(self._gradients):
                have = self._gradients[index]
                if have is None:
                    have = self._gradients[index] = torch.zeros_like(weight)
                found.append(have)
                continue
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            found.append(local(p.grad))
        return found

    def clear(self, indices: range | None = None) -> None:
        for index in indices if indices is not None else range(len(self.names)):
            if index < len(self._gradients):
                self._gradients[index] = None
            self.parameters[index].grad = None

    def publish(self) -> None:
        """The parameters become the masters, rounded."""
        if self._masters:
            with torch.no_grad():
                torch._foreach_copy_([p.data for p in self.parameters[: len(self._masters)]], self._masters)

    def shape(self, index: int) -> torch.Size:
        return self.parameters[index].shape

    def whole(self, index: int, part: Tensor) -> Tensor:
        """A copy of a tensor that lies as parameter `index` does, put together from all ranks: f32, on the CPU. Every rank calls it."""
        p = self.parameters[index]
        if isinstance(p, DTensor):
            part = DTensor.from_local(part, p.device_mesh, p.placements, shape=p.shape, stride=p.stride()).full_tensor()
        return part.detach().to("cpu", torch.float32, copy=True)

    def part(self, index: int, whole: Tensor) -> Tensor:
        """The inverse: what this rank keeps of it, on its device."""
        p = self.parameters[index]
        if isinstance(p, DTensor):
            pieces = whole.chunk(self.ranks.world)
            whole = pieces[self.ranks.rank] if self.ranks.rank < len(pieces) else whole[:0]
        return whole.to(self.ranks.device, torch.float32)

    def read(self, name: str) -> Tensor:
        """The whole of a master, by name. Every rank calls it."""
        index = self.names.index(name)
        return self.whole(index, self.weights()[index])

    def write(self, tensors: dict[str, Tensor]) -> None:
        """Whole tensors, by name."""
        weights = self.weights()
        with torch.no_grad():
            for name, whole in tensors.items():
                index = self.names.index(name)
                weights[index].copy_(self.part(index, whole).view_as(weights[index]))
        self.publish()

"""Vectors as large as what is trained, which stay where the parameters are: for trust regions, and for steps that are taken back."""

from __future__ import annotations

import torch
from torch import Tensor

from .errors import WorkerError
from .masters import Masters
from .optimiser import Optimiser


class Vectors:
    """By number. Each is a list of tensors that lie as the parameters do: this rank's parts, f32."""

    def __init__(self, masters: Masters, optimiser: Optimiser) -> None:
        self._masters, self._optimiser = masters, optimiser
        self._alive: dict[int, list[Tensor]] = {}
        self._last = 0

    def _keep(self, parts: list[Tensor]) -> int:
        self._last += 1
        self._alive[self._last] = parts
        return self._last

    def _get(self, number: int) -> list[Tensor]:
        parts = self._alive.get(number)
        if parts is None:
            raise WorkerError("INVALID_OPTION", f"There is no vector {number}: it was released, or never made.")
        if len(parts) != len(self._masters.names):
            raise WorkerError("INVALID_OPTION", "The vector is older than the value head, and shorter than what is trained now.")
        return parts

    @property
    def length(self) -> int:
        return sum(self._masters.shape(i).numel() for i in range(len(self._masters.names)))

    def make(self, of: str) -> int:
        if of == "parameters":
            return self._keep([part.clone() for part in self._masters.weights()])
        if of == "gradients":
            return self._keep([part.clone() for part in self._masters.gradients()])
        raise WorkerError("INVALID_OPTION", f'A vector cannot be made of "{of}".')

    def dot(self, a: int, b: int) -> float:
        return self._optimiser.dot(self._get(a), self._get(b))

    def add(self, a: int, b: int, scale: float) -> None:
        torch._foreach_add_(self._get(a), self._get(b), alpha=scale)

    def scale(self, a: int, factor: float) -> None:
        torch._foreach_mul_(self._get(a), factor)

    def copy(self, a: int) -> int:
        return self._keep([part.clone() for part in self._get(a)])

    def read(self, a: int) -> Tensor:
        return torch.cat([self._masters.whole(i, part).reshape(-1) for i, part in enumerate(self._get(a))])

    @torch.no_grad()
    def move_to(self, a: int) -> None:
        """The parameters become what it holds, to the bit."""
        for parameter, part in zip(self._masters.weights(), self._get(a), strict=True):
            parameter.copy_(part)
        self._masters.publish()

    def release(self, a: int) -> None:
        self._alive.pop(a, None)

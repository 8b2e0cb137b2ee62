"""Frozen weights to compare with. Only what is trained is kept beside the policy's own; the base under an adapter never moves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from .errors import WorkerError
from .masters import Masters, local
from .passes import Passes, Wants
from .tree import TokenTree


@dataclass
class Reference:
    """`weights`: of the policy's parameters, this rank's parts. None: the model without its adapter."""

    kind: str
    weights: list[Tensor] | None


class References:
    def __init__(self, masters: Masters, passes: Passes) -> None:
        self._masters, self._passes = masters, passes
        self._alive: dict[int, Reference] = {}
        self._last = 0

    def keep(self, kind: str, weights: list[Tensor] | None) -> int:
        self._last += 1
        self._alive[self._last] = Reference(kind, weights)
        return self._last

    def get(self, number: int) -> Reference:
        found = self._alive.get(number)
        if found is None:
            raise WorkerError("INVALID_OPTION", f"There is no reference {number}: it was closed, or never made.")
        return found

    def close(self, number: int) -> None:
        self._alive.pop(number, None)

    def present(self) -> list[Tensor]:
        """Copies of what computes now: rounded where the model is, which is what the policy's own log-probs come from."""
        masters = self._masters
        return [local(p.detach()).clone() for p in masters.parameters[: masters.policy]]

    def of(self, tensors: dict[str, Tensor]) -> list[Tensor]:
        """Of whole tensors by the names of files."""
        masters = self._masters
        parts = []
        for index, name in enumerate(masters.names[: masters.policy]):
            if name not in tensors:
                raise WorkerError("CHECKPOINT_MISMATCH", f"The weights for a reference lack {name}.")
            part = masters.part(index, tensors[name].reshape(masters.shape(index)))
            # A part that is the caller's memory still must not change with it.
            parts.append(part.to(local(masters.parameters[index]).dtype, copy=True))
        return parts

    def without_adapter(self) -> list[Tensor]:
        """An adapter that does nothing: B is zero, and A the policy's, so that blending moves it by its part and not by its square."""
        masters = self._masters
        present = zip(masters.names, masters.parameters[: masters.policy])
        return [torch.zeros_like(local(p.detach())) if ".lora_B." in name else local(p.detach()).clone() for name, p in present]

    def logprobs(self, number: int, tree: TokenTree, temperature: float) -> Tensor:
        weights = self.get(number).weights
        with self._swapped(self.without_adapter() if weights is None else weights):
            _, arrays = self._passes.forward(tree, Wants(grad=False, temperature=temperature), 0)
        return arrays["logprobs"]

    @torch.no_grad()
    def blend(self, number: int, decay: float) -> None:
        """this ← decay·this + (1 − decay)·policy, in f32 from then on: in 16 bits a slow average would stand still."""
        if not 0 <= decay <= 1:
            raise WorkerError("INVALID_OPTION", f"blend() got the decay {decay}; it must be from 0 to 1.")
        reference = self.get(number)
        masters = self._masters
        mine = reference.weights if reference.weights is not None else self.without_adapter()
        reference.weights = [part.float() for part in mine]
        torch._foreach_lerp_(reference.weights, masters.weights()[: masters.policy], 1 - decay)
        reference.kind = "own"

    @contextmanager
    def _swapped(self, weights: list[Tensor]) -> Iterator[None]:
        """The policy's parameters are these for a while. One rank changes pointers; shards are copied, since FSDP knows where they lie."""
        masters = self._masters
        parameters = masters.parameters[: masters.policy]
        if masters.ranks.world == 1:
            own = [p.data for p in parameters]
            try:
                for p, weight in zip(parameters, weights):
                    p.data = weight.to(p.dtype)
                yield
            finally:
                for p, data in zip(parameters, own):
                    p.data = data
            return
        self._passes.shards.end_burst()
        shards = [local(p.detach()) for p in parameters]
        own = [shard.clone() for shard in shards]
        try:
            torch._foreach_copy_(shards, weights)
            yield
        finally:
            torch._foreach_copy_(shards, own)

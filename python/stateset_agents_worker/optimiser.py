"""AdamW on the masters, as the embedded engine has it: scopes, one rate for the value head, one for the adapter's B, clipping."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim.adamw import adamw

from .errors import WorkerError
from .masters import Masters

_FROM_ZERO = (lambda x: 0 <= x < math.inf, "a number from 0")
_SHARE = (lambda x: 0 <= x < 1, "a number from 0 and below 1")
_ABOVE_ZERO = (lambda x: 0 < x < math.inf, "a number above 0")
#: What each number must be; anything else would destroy the weights, or move them the wrong way.
_RULES = {
    "learningRate": _FROM_ZERO,
    "valueLearningRate": _FROM_ZERO,
    "loraPlusRatio": _ABOVE_ZERO,
    "beta1": _SHARE,
    "beta2": _SHARE,
    "epsilon": _ABOVE_ZERO,
    "weightDecay": _FROM_ZERO,
    "clipNorm": (lambda x: x >= 0, "a number from 0"),
}


@dataclass(frozen=True)
class StepOptions:
    rate: float
    value_rate: float
    plus: float
    beta1: float
    beta2: float
    epsilon: float
    decay: float
    clip: float | None
    scope: str

    @staticmethod
    def read(options: dict[str, Any]) -> StepOptions:
        given = {key: options[key] for key in _RULES if options.get(key) is not None}
        if "learningRate" not in given:
            raise WorkerError("INVALID_OPTION", "step() got no learningRate.")
        for key, value in given.items():
            fits, wanted = _RULES[key]
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not fits(value):
                raise WorkerError("INVALID_OPTION", f"step() got {key} = {value}; it must be {wanted}.")
        scope = options.get("scope") or "all"
        if scope not in ("all", "policy", "value"):
            raise WorkerError("INVALID_OPTION", f'step() got the scope "{scope}"; it must be "all", "policy" or "value".')
        rate = float(given["learningRate"])
        return StepOptions(
            rate,
            float(given.get("valueLearningRate", rate)),
            float(given.get("loraPlusRatio", 1)),
            float(given.get("beta1", 0.9)),
            float(given.get("beta2", 0.999)),
            float(given.get("epsilon", 1e-8)),
            float(given.get("weightDecay", 0)),
            float(given["clipNorm"]) if "clipNorm" in given else None,
            scope,
        )


class Optimiser:
    def __init__(self, masters: Masters) -> None:
        self._masters = masters
        #: First and second moments by index, this rank's parts; none until the first step.
        self.moments: dict[int, tuple[Tensor, Tensor]] = {}
        #: Steps of the policy and of the value head, for the correction of the moments' bias.
        self.steps = [0, 0]

    def forget(self) -> None:
        self.moments.clear()
        self.steps = [0, 0]

    def scope(self, name: str) -> range:
        policy, every = self._masters.policy, len(self._masters.names)
        return {"all": range(every), "policy": range(policy), "value": range(policy, every)}[name]

    @torch.no_grad()
    def step(self, options: StepOptions) -> tuple[float, bool]:
        """The norm before clipping, over what is in scope, and whether the weights moved. Clears those gradients."""
        masters, indices = self._masters, self.scope(options.scope)
        weights, gradients = masters.weights(), masters.gradients()
        norm = self.norm([gradients[i] for i in indices], indices)
        if not math.isfinite(norm):
            masters.clear(indices)
            return norm, False
        if options.clip is not None and options.clip / (norm + 1e-6) < 1:
            torch._foreach_mul_([gradients[i] for i in indices], options.clip / (norm + 1e-6))
        policy = masters.policy
        if any(i < policy for i in indices):
            self.steps[0] += 1
        if any(i >= policy for i in indices):
            self.steps[1] += 1
        for (rate, decay, value), group in self._groups(options, indices).items():
            moments = [self.moment(i, weights[i]) for i in group]
            # The kernel counts up before it uses it; each needs one of its own.
            steps = torch.full((len(group),), float(self.steps[value] - 1), device=weights[group[0]].device).unbind()
            adamw(
                [weights[i] for i in group],
                [gradients[i] for i in group],
                [m for m, _ in moments],
                [v for _, v in moments],
                [],
                list(steps),
                fused=True,
                amsgrad=False,
                beta1=options.beta1,
                beta2=options.beta2,
                lr=rate,
                weight_decay=decay,
                eps=options.epsilon,
                maximize=False,
            )
        masters.publish()
        masters.clear(indices)
        return norm, True

    def moment(self, index: int, like: Tensor) -> tuple[Tensor, Tensor]:
        have = self.moments.get(index)
        if have is None:
            have = self.moments[index] = (torch.zeros_like(like), torch.zeros_like(like))
        return have

    def _groups(self, options: StepOptions, indices: range) -> dict[tuple[float, float, int], list[int]]:
        """By rate, decay (of matrices alone) and count of steps; parts that are empty on this rank have no part in it."""
        masters = self._masters
        weights = masters.weights()
        groups: dict[tuple[float, float, int], list[int]] = {}
        for i in indices:
            if weights[i].numel() == 0:
                continue
            value = i >= masters.policy
            rate = options.value_rate if value else options.rate * (options.plus if ".lora_B." in masters.names[i] else 1)
            decay = options.decay if len(masters.shape(i)) >= 2 else 0.0
            groups.setdefault((rate, decay, int(value)), []).append(i)
        return groups

    def norm(self, tensors: list[Tensor], indices: range | None = None) -> float:
        """Of all ranks' parts together; the value head lies whole on each, and counts once."""
        return math.sqrt(self.dot(tensors, tensors, indices))

    def dot(self, a: list[Tensor], b: list[Tensor], indices: range | None = None) -> float:
        """Summed in f64. `indices`: which parameters they are of, all where not said."""
        masters = self._masters
        chosen = indices if indices is not None else range(len(masters.names))
        if a is b:
            products = torch.stack(torch._foreach_norm(a)).double().square() if a else torch.zeros(0, dtype=torch.float64)
        else:
            products = torch.stack([torch.sum(x.double() * y.double()) for x, y in zip(a, b)]) if a else torch.zeros(0, dtype=torch.float64)
        if masters.ranks.world == 1:
            return float(products.sum())
        mine = [products[n] for n, i in enumerate(chosen) if i < masters.policy or masters.ranks.rank == 0]
        total = torch.stack(mine).sum().cpu() if mine else torch.zeros((), dtype=torch.float64)
        dist.all_reduce(total, group=masters.ranks.control)
        return float(total)

"""A reply on its way: where it lies, how far it is, what it drew."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .draw import TOP
from .errors import WorkerError
from .request import Out, Request


@dataclass
class Reply:
    request: Request
    slot: int
    #: Tokens of the prompt that have keys.
    computed: int
    #: Steps that were begun for it.
    begun: int = 0
    done: bool = False
    #: It drew from logits that are not finite.
    broken: bool = False
    _drawn: list[list[float]] = field(default_factory=list)
    _told: int = 0

    def __post_init__(self) -> None:
        self.cached = self.computed
        self.queued_ms = (time.monotonic() - self.request.submitted) * 1000

    @property
    def missing(self) -> int:
        """The prompt's last token is run by the first step, which draws."""
        return len(self.request.prompt) - 1 - self.computed

    @property
    def prefilling(self) -> bool:
        return not self.done and self.missing > 0

    @property
    def wants_step(self) -> bool:
        return not self.prefilling and self.begun < self.request.limit

    @property
    def reach(self) -> int:
        """Keys that its next step looks at."""
        return len(self.request.prompt) + self.begun

    @property
    def finish(self) -> str | None:
        if int(self._drawn[-1][0]) in self.request.stops:
            return "stop"
        return "length" if len(self._drawn) >= self.request.limit else None

    def take(self, report: list[float]) -> None:
        self._drawn.append(report)
        self.broken = not math.isfinite(report[1])

    def known(self) -> np.ndarray:
        """The tokens whose keys are in the slot: all but the last one drawn, which was never run."""
        if not self._drawn:
            return self.request.prompt[: self.computed]
        drawn = np.array([row[0] for row in self._drawn[:-1]], dtype=np.int64)
        return np.concatenate([self.request.prompt, drawn])

    def event(self) -> Out:
        since, self._told = self._told, len(self._drawn)
        return Out(self.request.id, False, {}, self._arrays(self._drawn[since:]))

    def out(self, finish: str, count: int) -> Out:
        result: dict[str, Any] = {
            "finish": finish,
            "count": count,
            "cached": self.cached,
            "queuedMs": self.queued_ms,
        }
        return Out(self.request.id, True, result, self._arrays(self._drawn))

    def failure(self, error: WorkerError) -> Out:
        return Out(self.request.id, True, {"ok": False, "error": error.envelope()})

    def _arrays(self, drawn: list[list[float]]) -> dict[str, Tensor]:
        arrays = {
            "tokens": torch.tensor([int(row[0]) for row in drawn], dtype=torch.int32),
            "logprobs": torch.tensor([row[1] for row in drawn], dtype=torch.float32),
        }
        if self.request.own:
            arrays["samplerLogprobs"] = torch.tensor([row[2] for row in drawn], dtype=torch.float32)
        top = self.request.top
        if top > 0:
            arrays["topTokens"] = torch.tensor(
                [int(token) for row in drawn for token in row[3 : 3 + top]], dtype=torch.int32
            )
            arrays["topLogprobs"] = torch.tensor(
                [logprob for row in drawn for logprob in row[3 + TOP : 3 + TOP + top]], dtype=torch.float32
            )
        return arrays

"""A request for one reply, checked, and what became of it so far."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .draw import TOP
from .errors import WorkerError


@dataclass
class Request:
    id: int
    prompt: np.ndarray
    #: Tokens that the reply can have at most: what was asked for, or what the context leaves.
    limit: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    minimum: int = 0
    stops: frozenset[int] = frozenset()
    bias: dict[int, float] = field(default_factory=dict)
    seed: int = 0
    top: int = 0
    own: bool = False
    namespace: str = ""
    stream: bool = False
    submitted: float = field(default_factory=time.monotonic)

    @property
    def shapes(self) -> bool:
        penalised = self.repetition != 1 or self.presence != 0 or self.frequency != 0
        return penalised or bool(self.bias) or self.minimum > 0

    @property
    def cuts(self) -> bool:
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0

    @property
    def usable(self) -> np.ndarray:
        """What others may have computed for it: all but the last token, which is always run, since its logits are needed."""
        return self.prompt[:-1]

    @property
    def room(self) -> int:
        """Keys that it can come to have: the last token drawn never gets one."""
        return len(self.prompt) + self.limit - 1


def read_request(id: int, options: dict[str, Any], tokens: Tensor, vocabulary: int, context: int) -> Request:
    """Refuses what could only fail later."""
    prompt = tokens.detach().cpu().to(torch.int64).numpy()
    stops = frozenset(int(token) for token in options.get("stopTokens") or ())
    bias = {int(token): float(added) for token, added in (options.get("logitBias") or {}).items()}
    asked = int(options["maxTokens"])
    request = Request(
        id=id,
        prompt=prompt,
        limit=min(asked, context - len(prompt)),
        temperature=float(options.get("temperature", 1)),
        top_p=float(options.get("topP", 1)),
        top_k=int(options.get("topK", 0)),
        min_p=float(options.get("minP", 0)),
        repetition=float(options.get("repetitionPenalty", 1)),
        presence=float(options.get("presencePenalty", 0)),
        frequency=float(options.get("frequencyPenalty", 0)),
        minimum=int(options.get("minTokens", 0)),
        stops=stops,
        bias={token: added for token, added in bias.items() if added != 0},
        seed=int(options.get("seed", 0)),
        top=min(int(options.get("topLogprobs", 0)), vocabulary),
        own=bool(options.get("samplerLogprobs", False)),
        namespace=str(options.get("namespace") or ""),
        stream=bool(options.get("stream", False)),
    )
    if len(prompt) == 0:
        raise invalid("The prompt is empty; it needs at least one token.")
    if asked < 1:
        raise invalid(f"maxTokens is {asked}; a reply has at least one token.")
    for token in (int(prompt.min()), int(prompt.max()), *stops, *bias):
        if not 0 <= token < vocabulary:
            raise invalid(f"Token {token} is not in the vocabulary of {vocabulary}.")
    if request.limit < 1:
        raise WorkerError(
            "CONTEXT_OVERFLOW",
            f"The prompt has {len(prompt)} tokens, and the context of {context} must also hold the reply.",
            "Shorten the conversation, or use a model with a longer context.",
        )
    if request.minimum > 0 and len(stops) >= vocabulary:
        raise invalid("Every token is a stop token, so a smallest length leaves nothing to choose.")
    for name, value, allowed in (
        ("temperature", request.temperature, 0 <= request.temperature <= 100),
        ("topP", request.top_p, 0 < request.top_p <= 1),
        ("topK", request.top_k, request.top_k >= 0),
        ("minP", request.min_p, 0 <= request.min_p <= 1),
        ("repetitionPenalty", request.repetition, 0 < request.repetition < float("inf")),
        ("topLogprobs", request.top, 0 <= request.top <= TOP),
        ("seed", request.seed, 0 <= request.seed < 1 << 63),
    ):
        if not allowed:
            raise invalid(f"{name} cannot be {value}.")
    return request


def invalid(message: str) -> WorkerError:
    return WorkerError("INVALID_OPTION", message)


@dataclass
class Out:
    """What became of a request: an event with the tokens since the last one, or its end with all of them. An error is a result that
    is not ok."""

    id: int
    final: bool
    result: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Tensor] = field(default_factory=dict)

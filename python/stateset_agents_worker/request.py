"""A request for one reply, checked, and what became of it so far."""

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
    """Refuses what could only fail later, in the midst of others."""
    prompt = tokens.detach().cpu().to(torch.int64).numpy()
    try:
        asked, request = _read(id, options, prompt, vocabulary, context)
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        raise invalid(f"The options of sample cannot be read: {error}.") from error
    if len(prompt) == 0:
        raise invalid("The prompt is empty; it needs at least one token.")
    if asked < 1:
        raise invalid(f"maxTokens is {asked}; a reply has at least one token.")
    for token in (int(prompt.min()), int(prompt.max()), *request.stops, *request.bias):
        if not 0 <= token < vocabulary:
            raise invalid(f"Token {token} is not in the vocabulary of {vocabulary}.")
    if request.limit < 1:
        raise WorkerError(
            "CONTEXT_OVERFLOW",
            f"The prompt has {len(prompt)} tokens, and the context of {context} must also hold the reply.",
            "Shorten the conversation, or use a model with a longer context.",
        )
    if request.minimum > 0 and len(request.stops) >= vocabulary:
        raise invalid("Every token is a stop token, so a smallest length leaves nothing to choose.")
    for name, value, allowed in (
        ("temperature", request.temperature, 0 <= request.temperature <= 100),
        ("topP", request.top_p, 0 < request.top_p <= 1),
        ("topK", request.top_k, request.top_k >= 0),
        ("minP", request.min_p, 0 <= request.min_p <= 1),
        ("repetitionPenalty", request.repetition, 0 < request.repetition < math.inf),
        ("presencePenalty", request.presence, math.isfinite(request.presence)),
        ("frequencyPenalty", request.frequency, math.isfinite(request.frequency)),
        ("logitBias", request.bias, all(map(math.isfinite, request.bias.values()))),
        ("topLogprobs", request.top, 0 <= request.top <= TOP),
        ("seed", request.seed, 0 <= request.seed < 1 << 63),
    ):
        if not allowed:
            raise invalid(f"{name} cannot be {value}.")
    return request


def _read(id: int, options: dict[str, Any], prompt: np.ndarray, vocabulary: int, context: int) -> tuple[int, Request]:
    """With maxTokens as it was asked for."""

    def given(name: str, default: Any) -> Any:
        value = options.get(name)
        return default if value is None else value

    asked = int(given("maxTokens", 0))
    limit = min(asked, context - len(prompt))
    bias = {int(token): float(added) for token, added in given("logitBias", {}).items()}
    return asked, Request(
        id=id,
        prompt=prompt,
        limit=limit,
        temperature=float(given("temperature", 1)),
        top_p=float(given("topP", 1)),
        # No more than have an effect: larger ones need not fit in a tensor.
        top_k=min(int(given("topK", 0)), vocabulary),
        min_p=float(given("minP", 0)),
        repetition=float(given("repetitionPenalty", 1)),
        presence=float(given("presencePenalty", 0)),
        frequency=float(given("frequencyPenalty", 0)),
        minimum=min(int(given("minTokens", 0)), limit),
        stops=frozenset(int(token) for token in given("stopTokens", ())),
        bias={token: added for token, added in bias.items() if added != 0},
        seed=int(given("seed", 0)),
        top=min(int(given("topLogprobs", 0)), vocabulary),
        own=bool(given("samplerLogprobs", False)),
        namespace=str(given("namespace", "")),
        stream=bool(given("stream", False)),
    )


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

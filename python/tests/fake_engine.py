"""An engine without a model: numbers that show in which order, with which weights and on which rank things were done."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import torch

from stateset_agents_worker.errors import WorkerError


# Until it is set, whoever called `hold` waits; for workers in the process of the test.
held = threading.Event()


@dataclass
class Out:
    id: int
    final: bool
    arrays: dict[str, Any]
    result: dict[str, Any]


@dataclass
class Sample:
    left: int
    stream: bool
    tokens: list[int] = field(default_factory=list)
    cancelled: bool = False


class FakeSampler:
    """One token a step for every sample: the count of the weights it was sampled with."""

    def __init__(self, engine: FakeEngine) -> None:
        self.engine = engine
        self.samples: dict[int, Sample] = {}
        self.sampled = 0
        self.forgotten = 0

    def add(self, id: int, options: dict[str, Any], tokens: torch.Tensor) -> None:
        if options.get("temperature", 1) < 0:
            raise WorkerError("INVALID_OPTION", "temperature is negative.")
        self.samples[id] = Sample(options["maxTokens"], options.get("stream", False))

    def cancel(self, id: int) -> None:
        if id in self.samples:
            self.samples[id].cancelled = True

    def step(self) -> list[Out]:
        time.sleep(0.002)
        if self.engine.fail_next:
            self.engine.fail_next = False
            raise MemoryError("no room")
        outs = []
        for id, sample in list(self.samples.items()):
            sample.left -= 1
            sample.tokens.append(self.engine.count)
            self.sampled += 1
            if sample.cancelled or sample.left == 0:
                del self.samples[id]
                finish = "aborted" if sample.cancelled else "length"
                result = {"finish": finish, "count": self.engine.count, "rank": self.engine.rank}
                outs.append(Out(id, True, {"tokens": torch.tensor(sample.tokens, dtype=torch.int32)}, result))
            elif sample.stream:
                outs.append(Out(id, False, {"tokens": torch.tensor(sample.tokens[-1:], dtype=torch.int32)}, {}))
        return outs

    @property
    def idle(self) -> bool:
        return not self.samples

    def forget(self) -> None:
        self.forgotten += 1

    def stats(self) -> dict[str, Any]:
        return {"running": len(self.samples), "waiting": 0, "slots": 4, "sampledTokens": self.sampled, "versions": 1}


class FakeEngine:
    def __init__(self, options: dict[str, Any], ranks: Any) -> None:
        if options.get("model") == "missing":
            raise WorkerError("MODEL_NOT_FOUND", "No model there.", "Give a folder.")
        self.ranks = ranks
        self.rank = ranks.rank
        self.count = 0
        self.done: list[str] = []
        self.fail_next = False
        self.sampler = FakeSampler(self)

    def info(self) -> dict[str, Any]:
        return {"architecture": "fake", "vocabSize": 8}

    def call(self, op: str, options: dict[str, Any], arrays: dict[str, torch.Tensor]) -> tuple[dict[str, Any], dict[str, Any]]:
        self.done.append(op)
        if op == "hold":
            held.wait()
        here = options.get("rank") in (None, self.rank)
        if op == "double":
            return {"count": self.count}, {name: array * 2 for name, array in arrays.items()}
        if op in ("step", "load", "restore", "vectorMove"):
            self.count += 1
            return {"count": self.count}, {}
        if op == "done":
            return {"done": self.done, "forgotten": self.sampler.forgotten, "ranks": self.ranks.gather(len(self.done))}, {}
        if op == "breakSampling":
            self.fail_next = True
        if op == "throw" and here:
            raise ValueError("something odd\nin two lines")
        if op == "refuse" and here:
            raise WorkerError("WRITE_FAILED", "The disk is full.", "Make room.")
        if op == "exhaust" and here:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        if op == "large":
            return {}, {"values": torch.zeros(options["length"])}
        if op == "die" and here:
            os._exit(9)
        return {"nan": float("nan")}, {}


def open_fake(options: dict[str, Any], ranks: Any) -> FakeEngine:
    return FakeEngine(options, ranks)

"""One turn of the worker: what rank 0 decided, done by every rank at the same time, and what became of it."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import WorkerError, as_worker_error, is_fatal, is_out_of_memory
from .lifeline import end
from .ranks import Ranks

Arrays = dict[str, np.ndarray]
# They change the weights: samples that came before are finished first, and what was kept of prompts is void after.
WEIGHTS_CHANGE = frozenset({"step", "load", "restore", "vectorApply"})
# How long a rank that failed waits for the others: one that hangs in a collective never comes.
MEETING_SECONDS = 60.0
CAUSE_SECONDS = 5.0


@dataclass
class Call:
    op: str
    options: dict[str, Any]
    arrays: Arrays


@dataclass
class Turn:
    """`adds`: (id, rank, options, tokens) of new samples. `sample`: whether one decoding step is taken at the end."""

    cancels: list[int] = field(default_factory=list)
    adds: list[tuple[int, int, dict[str, Any], np.ndarray]] = field(default_factory=list)
    call: Call | None = None
    sample: bool = False
    end: bool = False


@dataclass
class Sampled:
    """What became of one sample: tokens so far, or its end."""

    id: int
    final: bool
    result: dict[str, Any]
    arrays: Arrays


@dataclass
class Outcome:
    """Of one rank. `unforeseen`: the call's error was thrown by something other than our own checks."""

    result: dict[str, Any] = field(default_factory=dict)
    arrays: Arrays = field(default_factory=dict)
    error: WorkerError | None = None
    unforeseen: bool = False
    fatal: bool = False
    refused: list[tuple[int, WorkerError]] = field(default_factory=list)
    sampled: list[Sampled] = field(default_factory=list)
    sampling_failed: WorkerError | None = None
    stats: dict[str, Any] = field(default_factory=dict)


class Hands:
    """What a rank does with a turn. `open_engine(options, ranks)` makes the engine."""

    def __init__(self, ranks: Ranks, open_engine: Callable[[dict[str, Any], Ranks], Any]) -> None:
        self.ranks = ranks
        self.engine: Any = None
        self._open_engine = open_engine

    def perform(self, turn: Turn | None = None) -> tuple[Turn, list[Outcome]]:
        """Does rank 0's turn (the other ranks bring none) and returns it with the outcomes of all ranks, in their order."""
        turn = self._together(self.ranks.share, turn)
        own = Outcome()
        if turn.end:
            return turn, [own]
        for id in turn.cancels:
            if self.engine is not None:
                self.engine.sampler.cancel(id)
        for id, rank, options, tokens in turn.adds:
            if rank == self.ranks.rank:
                self._add(own, id, options, tokens)
        if turn.call is not None:
            self._call(own, turn.call)
        if turn.sample:
            self._sample(own)
        if self.engine is not None:
            own.stats = self.engine.sampler.stats()
        return turn, self._meet(own)

    def follow(self) -> None:
        """The life of every rank but the first."""
        while not self.perform()[0].end:
            pass

    def _add(self, own: Outcome, id: int, options: dict[str, Any], tokens: np.ndarray) -> None:
        try:
            self.engine.sampler.add(id, options, tensors({"tokens": tokens})["tokens"])
        except Exception as thrown:
            own.refused.append((id, self._caught(own, thrown, "sample", tokens.size)))

    def _call(self, own: Outcome, call: Call) -> None:
        try:
            if call.op in ("open", "close") and self.engine is not None:
                self.engine = None
                tidy()
            if call.op == "open":
                self.engine = self._open_engine(call.options, self.ranks)
                own.result = {"info": self.engine.info()}
            elif call.op != "close":
                result, arrays = self.engine.call(call.op, call.options, tensors(call.arrays))
                if call.op in WEIGHTS_CHANGE:
                    self.engine.sampler.forget()
                if self.ranks.rank == 0:
                    own.result, own.arrays = result, plain(arrays)
        except Exception as thrown:
            tokens = call.arrays.get("tokens")
            own.error = self._caught(own, thrown, call.op, None if tokens is None else tokens.size)
            own.unforeseen = not isinstance(thrown, WorkerError)

    def _sample(self, own: Outcome) -> None:
        try:
            for out in self.engine.sampler.step():
                own.sampled.append(Sampled(out.id, out.final, out.result, plain(out.arrays)))
        except Exception as thrown:
            own.sampling_failed = self._caught(own, thrown, "sample")

    def _caught(self, own: Outcome, thrown: Exception, op: str, tokens: int | None = None) -> WorkerError:
        """Makes an error of what was thrown, and lets go of the memory its frames hold."""
        no_memory = is_out_of_memory(thrown)
        error = as_worker_error(thrown, op, tokens, free_memory(self.ranks.device) if no_memory else None)
        if error is not thrown:
            traceback.print_exception(thrown, file=sys.stderr)
        own.fatal = own.fatal or is_fatal(thrown)
        traceback.clear_frames(thrown.__traceback__)
        thrown.__traceback__ = thrown.__context__ = thrown.__cause__ = None
        if no_memory:
            tidy()
        return error

    def _meet(self, own: Outcome) -> list[Outcome]:
        """
        Brings the outcomes together. Ranks that disagree about an error nobody foresaw have gone apart and cannot go on; neither
        can one that failed while the others wait for it in a collective. Both end here, with 1, and the client sees a lost worker.
        """
        if self.ranks.world == 1:
            return [own]
        failed = own.error or own.sampling_failed
        late = threading.Timer(MEETING_SECONDS, end, (1, f"rank {self.ranks.rank} failed alone: {failed}"))
        late.daemon = True
        if failed is not None:
            late.start()
        try:
            outcomes = self._together(self.ranks.gather, own)
        finally:
            late.cancel()
        failing = [rank for rank, one in enumerate(outcomes) if one.error is not None]
        if 0 < len(failing) < len(outcomes) and any(one.unforeseen for one in outcomes):
            end(1, f"rank {failing[0]} failed alone: {outcomes[failing[0]].error}")
        return outcomes

    def _together(self, meet: Callable[[Any], Any], value: Any) -> Any:
        try:
            return meet(value)
        except Exception as thrown:
            # First the rank that died must be seen by torchrun, which then ends this one: it names the first it sees as the cause.
            time.sleep(CAUSE_SECONDS)
            end(1, f"rank {self.ranks.rank} lost the others: {thrown}")


def tensors(arrays: Arrays) -> dict[str, Any]:
    """As torch has them, where they lie."""
    if not arrays:
        return {}
    import torch

    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def plain(arrays: dict[str, Any]) -> Arrays:
    """As frames have them. Copied: they are sent while the next turn may change what they were taken from."""
    return {name: array.detach().to("cpu", copy=True).numpy() for name, array in arrays.items()}


def tidy() -> None:
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def free_memory(device: Any) -> str:
    """In words, for a message."""
    if getattr(device, "type", device) == "cuda":
        import torch

        free, total = torch.cuda.mem_get_info(device)
    else:
        page = os.sysconf("SC_PAGE_SIZE")
        total = os.sysconf("SC_PHYS_PAGES") * page
        free = os.sysconf("SC_AVPHYS_PAGES") * page if "SC_AVPHYS_PAGES" in os.sysconf_names else 0
    return f"{free / 2**30:.1f} of {total / 2**30:.1f} GiB were free"

"""Rank 0's decisions: in which order requests become turns, who samples what, and what is answered.

Requests are done in the order of their arrival, one a turn, and every turn ends with a decoding step where anything is being
sampled; so replies go on while passes are computed. An operation that changes the weights waits until the samples that came
before it are finished; those that come after it wait for it.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from .errors import WorkerError
from .frames import is_size
from .lifeline import end, log
from .turn import WEIGHTS_CHANGE, Arrays, Call, Hands, Outcome, Turn

# Wait until nothing is being sampled. A model that is opened or closed takes its sampler with it.
BARRIERS = WEIGHTS_CHANGE | {"open", "close"}
# Asked for without waiting for an answer.
QUIET = frozenset({"cancel", "release", "vectorRelease"})

# What a sample has that was cancelled before it began.
NO_REPLY = {"tokens": np.zeros(0, np.int32), "logprobs": np.zeros(0, np.float32)}


class Client(Protocol):
    """Where answers go; may be called from any thread."""

    def send(self, envelope: dict[str, Any], arrays: Arrays | None = None) -> None: ...

    def flush(self) -> None: ...


@dataclass
class Request:
    client: Client
    id: int
    op: str
    options: dict[str, Any]
    arrays: Arrays
    drained: bool = False


@dataclass
class Gone:
    """A client went; nothing it asked for is wanted any more."""

    client: Client


@dataclass
class Running:
    client: Client
    rank: int
    tokens: int


class Worker:
    """`ends_with_client`: a spawned worker goes with its client; a listening one drops the model and waits for the next."""

    def __init__(self, hands: Hands, ends_with_client: bool) -> None:
        self.inbox: queue.SimpleQueue[Request | Gone] = queue.SimpleQueue()
        self._hands = hands
        self._ends_with_client = ends_with_client
        self._ending = False
        self._client: Client | None = None
        self._pending: deque[Request] = deque()
        self._running: dict[int, Running] = {}
        self._cancels: list[int] = []
        self._load = [0] * hands.ranks.world
        self._busy: tuple[str, float] | None = None
        self._stats: dict[str, Any] | None = None

    def run(self) -> None:
        while True:
            self._receive()
            if self._ending:
                self._hands.perform(Turn(end=True))
                return
            request, turn = self._plan()
            self._busy = (request.op if request else "sample", time.monotonic())
            _, outcomes = self._hands.perform(turn)
            self._busy = None
            self._answer(request, outcomes)

    # What the I/O thread may ask at any time.

    @property
    def busy(self) -> dict[str, Any] | None:
        busy = self._busy
        return None if busy is None else {"op": busy[0], "seconds": time.monotonic() - busy[1]}

    @property
    def at_rest(self) -> bool:
        """Nothing is open and nothing is being done: every rank can be told to leave."""
        return self._hands.engine is None and self._busy is None and self.inbox.empty()

    def stats(self) -> dict[str, Any]:
        stats = self._stats
        if stats is None:
            raise nothing_open()
        return stats

    # The turn.

    def _receive(self) -> None:
        """Takes what has arrived; waits where there is nothing else to do."""
        wait = not self._pending and not self._running and not self._cancels
        while True:
            try:
                message = self.inbox.get(block=wait)
            except queue.Empty:
                return
            wait = False
            self._client = message.client
            if isinstance(message, Gone):
                self._forget(message.client)
            elif message.op == "cancel":
                self._cancel(message)
            else:
                self._pending.append(message)

    def _forget(self, client: Client) -> None:
        self._pending = deque(request for request in self._pending if request.client is not client)
        self._cancels += [id for id, running in self._running.items() if running.client is client]
        self._ending = self._ending or self._ends_with_client
        # Answered to nobody: the client is gone.
        self._pending.append(Request(client, 0, "close", {}, {}))

    def _cancel(self, message: Request) -> None:
        target = message.options.get("target")
        if type(target) is not int:
            log(f"cancel: its target {ascii(target)[:40]} is no number of a request.")
            return
        if target in self._running:
            self._cancels.append(target)
            return
        for request in self._pending:
            if request.id == target and request.client is message.client and request.op not in QUIET:
                self._pending.remove(request)
                if request.op == "sample":
                    count = 0 if self._hands.engine is None else self._hands.engine.count
                    reply(request, {"finish": "aborted", "count": count, "cached": 0, "queuedMs": 0}, NO_REPLY)
                else:
                    fail(request, WorkerError("ABORTED", f"{request.op} was cancelled before it began."))
                return

    def _plan(self) -> tuple[Request | None, Turn]:
        turn = Turn(cancels=self._cancels)
        self._cancels = []
        called: Request | None = None
        while self._pending and called is None:
            request = self._pending[0]
            if request.op in BARRIERS and self._running:
                request.drained = True
                break
            self._pending.popleft()
            if request.op == "sample":
                self._deal(request, turn)
            elif self._hands.engine is None and request.op not in ("open", "close"):
                # A pass of a model that is gone needs no release.
                if request.op not in QUIET:
                    fail(request, nothing_open())
            else:
                called = request
                turn.call = Call(request.op, request.options, request.arrays)
        turn.sample = bool(self._running)
        return called, turn

    def _deal(self, request: Request, turn: Turn) -> None:
        """To the rank with the fewest tokens to come."""
        tokens, longest = request.arrays.get("tokens"), request.options.get("maxTokens")
        if self._hands.engine is None:
            fail(request, nothing_open())
        elif tokens is None or tokens.dtype != np.int32 or tokens.size == 0 or not is_size(longest):
            fail(request, WorkerError("INVALID_OPTION", "sample wants an array tokens (I32, not empty) and maxTokens."))
        else:
            rank = min(range(len(self._load)), key=self._load.__getitem__)
            running = Running(request.client, rank, tokens.size + int(longest))
            self._load[rank] += running.tokens
            self._running[request.id] = running
            turn.adds.append((request.id, rank, request.options, tokens))

    def _finish(self, id: int) -> Running | None:
        running = self._running.pop(id, None)
        if running is not None:
            self._load[running.rank] -= running.tokens
        return running

    def _answer(self, request: Request | None, outcomes: list[Outcome]) -> None:
        self._stats = together([one.stats for one in outcomes])
        if request is not None:
            error = next((one.error for one in outcomes if one.error is not None), None)
            if error is not None:
                fail(request, error)
            else:
                drained = {"drained": request.drained} if request.op in WEIGHTS_CHANGE else {}
                reply(request, {**outcomes[0].result, **drained}, outcomes[0].arrays)
        for outcome in outcomes:
            for id, error in outcome.refused:
                self._fail_sample(id, error)
            for out in outcome.sampled:
                running = self._finish(out.id) if out.final else self._running.get(out.id)
                if running is None:
                    continue
                if out.final:
                    running.client.send({"id": out.id, "ok": True, **out.result}, out.arrays)
                else:
                    running.client.send({"id": out.id, "event": "tokens"}, out.arrays)
        failed = next((one.sampling_failed for one in outcomes if one.sampling_failed is not None), None)
        if failed is not None:
            # Which request broke the batch cannot be told: all of it fails, and the sampler is emptied.
            self._cancels += self._running
            for id in list(self._running):
                self._fail_sample(id, failed)
        if any(one.fatal for one in outcomes):
            if self._client is not None:
                self._client.flush()
            end(1, "the device can compute nothing more.")

    def _fail_sample(self, id: int, error: WorkerError) -> None:
        running = self._finish(id)
        if running is not None:
            running.client.send({"id": id, "ok": False, "error": error.envelope()})


def reply(request: Request, result: dict[str, Any], arrays: Arrays) -> None:
    if request.op not in QUIET:
        request.client.send({"id": request.id, "ok": True, **result}, arrays)


def fail(request: Request, error: WorkerError) -> None:
    if request.op in QUIET:
        log(f"{request.op}: {error}")
    else:
        request.client.send({"id": request.id, "ok": False, "error": error.envelope()})


def nothing_open() -> WorkerError:
    return WorkerError("POLICY_CLOSED", "No model is open in the worker.", "Send open first.")


def together(stats: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The stats of all ranks as one: sums, but for how many weights are alive, which every rank counts alike."""
    if not stats[0]:
        return None
    return {name: max(one[name] for one in stats) if name == "versions" else sum(one[name] for one in stats) for name in stats[0]}

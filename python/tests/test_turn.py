"""A rank's turn by itself: what becomes of errors, of memory, and of ranks that go apart."""

from __future__ import annotations

import contextlib
import io
import threading
import types
import unittest
import weakref
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from stateset_agents_worker import turn, worker
from stateset_agents_worker.errors import WorkerError, is_fatal, is_out_of_memory
from stateset_agents_worker.turn import Call, Hands, Outcome, Turn
from stateset_agents_worker.worker import Request, Worker, together
from tests.fake_engine import FakeEngine


class Ended(Exception):
    pass


class FakeRanks:
    """Rank 1 of 2; `meet` stands for the other one."""

    world, rank, device = 2, 1, types.SimpleNamespace(type="cpu")

    def __init__(self, meet: Callable[[Outcome], Outcome]) -> None:
        self.meet = meet

    def share(self, value: Any) -> Any:
        return value

    def gather(self, own: Outcome) -> list[Outcome]:
        return [self.meet(own), own]


class AcceleratorError(RuntimeError):
    """As torch names what a GPU does not recover from."""


class Engine(FakeEngine):
    """Throws what it is told to, with something large in its hands."""

    def call(self, op: str, options: dict[str, Any], arrays: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        activations = np.zeros(1000)
        self.activations = weakref.ref(activations)
        if op == "throw":
            raise options["error"]
        return {}, {}


def opened(ranks: Any) -> Hands:
    hands = Hands(ranks, lambda options, ranks: Engine(options, ranks))
    hands.engine = Engine({}, ranks)
    return hands


def throw(hands: Hands, error: BaseException) -> list[Outcome]:
    with contextlib.redirect_stderr(io.StringIO()):
        return hands.perform(Turn(call=Call("throw", {"error": error}, {})))[1]


class Turns(unittest.TestCase):
    def setUp(self) -> None:
        self.ended = mock.patch.object(turn, "end", side_effect=Ended).start()
        self.addCleanup(mock.patch.stopall)

    def test_ends_where_one_rank_fails_alone_of_something_nobody_foresaw(self) -> None:
        with self.assertRaises(Ended):
            throw(opened(FakeRanks(lambda own: Outcome())), ValueError("odd"))
        self.assertIn("rank 1 failed alone", self.ended.call_args.args[1])

    def test_lives_where_all_fail_alike_or_where_it_was_foreseen(self) -> None:
        outcomes = throw(opened(FakeRanks(lambda own: own)), ValueError("odd"))
        self.assertEqual([one.error.code for one in outcomes], ["ENGINE_FAILED"] * 2)
        outcomes = throw(opened(FakeRanks(lambda own: Outcome())), WorkerError("WRITE_FAILED", "full"))
        self.assertEqual([one.error and one.error.code for one in outcomes], [None, "WRITE_FAILED"])

    def test_does_not_wait_for_ranks_that_hang_after_one_failed(self) -> None:
        said = threading.Event()
        self.ended.side_effect = lambda *_: said.set()

        def hang(own: Outcome) -> Outcome:
            self.assertTrue(said.wait(60))
            return own

        with mock.patch.object(turn, "MEETING_SECONDS", 0.01):
            throw(opened(FakeRanks(hang)), ValueError("odd"))
        self.assertEqual(self.ended.call_args.args[0], 1)

    def test_ends_when_the_others_are_gone(self) -> None:
        def gone(own: Outcome) -> Outcome:
            raise RuntimeError("Connection closed by peer")

        with mock.patch.object(turn, "CAUSE_SECONDS", 0), self.assertRaises(Ended):
            throw(opened(FakeRanks(gone)), ValueError("odd"))
        self.assertIn("Connection closed by peer", self.ended.call_args.args[1])

    def test_lets_go_of_what_a_failed_call_held_and_of_a_closed_model(self) -> None:
        hands = opened(FakeRanks(lambda own: own))
        error = ValueError("odd")
        throw(hands, error)
        self.assertIsNone(hands.engine.activations())
        engine = weakref.ref(hands.engine)
        hands.perform(Turn(call=Call("close", {}, {})))
        self.assertIsNone(engine())

    def test_tells_a_lack_of_memory_from_a_device_that_is_lost(self) -> None:
        for error, memory, fatal in (
            (MemoryError(), True, False),
            (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), True, False),
            (AcceleratorError("CUDA error: out of memory"), True, False),
            (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"), True, False),
            (AcceleratorError("CUDA error: device-side assert triggered"), False, True),
            (RuntimeError("CUDA error: an illegal memory access was encountered"), False, True),
            (ValueError("odd"), False, False),
        ):
            with self.subTest(error):
                self.assertEqual((is_out_of_memory(error), is_fatal(error)), (memory, fatal))

    def test_answers_and_flushes_before_it_ends_with_a_lost_device(self) -> None:
        hands = opened(types.SimpleNamespace(world=1, rank=0, device=FakeRanks.device, share=lambda turn: turn))
        client = mock.Mock()
        one = Worker(hands, ends_with_client=False)
        one.inbox.put(Request(client, 5, "throw", {"error": AcceleratorError("CUDA error: device-side assert triggered")}, {}))
        quiet = contextlib.redirect_stderr(io.StringIO())
        with mock.patch.object(worker, "end", side_effect=Ended), self.assertRaises(Ended), quiet:
            one.run()
        self.assertEqual([call[0] for call in client.method_calls], ["send", "flush"])
        self.assertEqual(client.send.call_args.args[0]["error"]["code"], "ENGINE_FAILED")

    def test_adds_up_the_stats_of_ranks(self) -> None:
        self.assertEqual(together([{"slots": 4, "versions": 1}, {"slots": 3, "versions": 1}]), {"slots": 7, "versions": 1})
        self.assertIsNone(together([{}, {}]))


if __name__ == "__main__":
    unittest.main()

"""The worker in this process, with the fake engine: who is let in, what is done in which order, what survives what."""

from __future__ import annotations

import contextlib
import io
import random
import socket
import struct
import threading
import time
import types
import unittest
from typing import Any
from unittest import mock

import numpy as np

from stateset_agents_worker import __version__
from stateset_agents_worker.frames import encode
from stateset_agents_worker.listen import bind_tcp
from stateset_agents_worker.ranks import Ranks
from stateset_agents_worker.serve import MAX_STRANGERS, Door, Server
from stateset_agents_worker.turn import Hands
from stateset_agents_worker.worker import Worker
from tests.client import Closed, TestClient
from tests.fake_engine import held, open_fake
from tests.test_frames import example, mutated

TOKEN = "a long and random text"


def start(**door: Any) -> tuple[Server, tuple[str, int]]:
    """A listening worker whose threads end with this process."""
    listener = bind_tcp("127.0.0.1", 0)
    worker = Worker(Hands(Ranks(1, 0, types.SimpleNamespace(type="cpu")), open_fake), ends_with_client=False)
    server = Server(Door(listener, {"world": 1}, TOKEN, **door), worker, lambda: lambda: ("stacks", []))
    server.start()
    threading.Thread(target=worker.run, daemon=True).start()
    return server, listener.getsockname()


class Serving(unittest.TestCase):
    def setUp(self) -> None:
        log = io.StringIO()
        stack = contextlib.ExitStack()
        stack.enter_context(contextlib.redirect_stderr(log))
        self.addCleanup(stack.close)
        self.log = log
        self.server, self.address = start(max_frame_bytes=1 << 20)

    def client(self, **hello: Any) -> TestClient:
        client = self.stranger()
        self.assertTrue(client.hello(token=TOKEN, **hello)["ok"])
        return client

    def opened(self) -> TestClient:
        client = self.client()
        self.assertEqual(client.ask("open", model="fake")["info"]["architecture"], "fake")
        return client

    def hold(self, client: TestClient) -> int:
        """Lets the engine wait, until `held` is set, and returns when it does."""
        held.clear()
        self.addCleanup(held.set)
        id = client.send("hold")
        while (client.until(client.send("ping"))[0].envelope["busy"] or {}).get("op") != "hold":
            time.sleep(0.001)
        return id

    def stranger(self) -> TestClient:
        client = TestClient(self.address)
        self.addCleanup(client.close)
        return client

    def assert_closed(self, client: TestClient) -> None:
        with self.assertRaises((Closed, ConnectionResetError)):
            client.receive()

    # Who is let in.

    def test_tells_what_it_is_to_whoever_greets_well(self) -> None:
        facts = self.stranger().hello(token=TOKEN)
        self.assertEqual(facts, {"id": 1, "ok": True, "protocol": 1, "version": __version__, "maxFrameBytes": 1 << 20, "world": 1})

    def test_refuses_other_tokens_protocols_and_versions_and_goes_on(self) -> None:
        for hello, why in (
            ({}, "no token"),
            ({"token": "a wrong one"}, "a token that is not this worker's"),
            ({"token": 7}, "a token that is not this worker's"),
            ({"token": "\ud800"}, "a token that is not this worker's"),
            ({"token": TOKEN, "protocol": 2}, "speaks protocol 2, the worker 1"),
            ({"token": TOKEN, "version": "9.9.9"}, f"version '9.9.9', the worker {__version__}"),
            ({"token": TOKEN, "version": None}, "version None"),
        ):
            with self.subTest(why):
                client = self.stranger()
                reply = client.hello(**hello)
                self.assertEqual((reply["ok"], reply["error"]["code"]), (False, "WORKER_REFUSED"))
                self.assertIn(why, reply["error"]["message"])
                self.assert_closed(client)
        client = self.stranger()
        self.assertEqual(client.ask("ping")["error"]["message"], "The first request must be hello.")
        self.assert_closed(client)
        self.client()
        self.assertIn("client refused", self.log.getvalue())
        self.assertNotIn(TOKEN, self.log.getvalue())
        self.assertNotIn("a wrong one", self.log.getvalue())

    def test_serves_one_client_at_a_time_and_the_next_one_after_it(self) -> None:
        first = self.opened()
        second = self.stranger()
        error = second.hello(token=TOKEN)["error"]
        self.assertEqual((error["code"], "busy" in error["message"], error["busy"]), ("WORKER_REFUSED", True, True))
        self.assert_closed(second)
        # Somebody without the token does not even learn that.
        stranger = self.stranger().hello()["error"]
        self.assertEqual(("no token" in stranger["message"], "busy" in stranger), (True, False))
        running = first.sample(100_000)
        first.close()
        while self.server.client is not None:
            time.sleep(0.01)
        third = self.client()
        self.assertEqual(third.ask("forward")["error"]["code"], "POLICY_CLOSED")
        self.assertEqual(third.ask("open")["ok"], True)
        self.assertEqual(third.ask("stats")["running"], 0)
        self.assertIsNot(running, None)

    def test_keeps_the_number_of_strangers_small(self) -> None:
        waiting = [self.stranger() for _ in range(MAX_STRANGERS)]
        while self.server.strangers < MAX_STRANGERS:
            time.sleep(0.01)
        self.assert_closed(self.stranger())
        self.assertEqual(self.server.strangers, MAX_STRANGERS)
        waiting[0].close()
        while self.server.strangers == MAX_STRANGERS:
            time.sleep(0.01)
        self.client()

    def test_ends_where_another_one_was_bound_to_its_port_and_listened_first(self) -> None:
        with contextlib.closing(bind_tcp("127.0.0.1", 0)) as listener, contextlib.closing(bind_tcp(*listener.getsockname())) as other:
            other.listen()
            server = Server(Door(listener, {}), self.server.worker, self.server.stacks)
            self.addCleanup(server.loop.close)
            with mock.patch("stateset_agents_worker.serve.end", side_effect=SystemExit) as ended, self.assertRaises(SystemExit):
                server._run(threading.Event())
            self.assertIn("is taken by another process", ended.call_args.args[1])

    # What is done in which order.

    def test_finishes_samples_that_came_before_a_step_and_lets_those_after_it_wait(self) -> None:
        client = self.opened()
        before = [client.sample(30), client.sample(50)]
        step = client.send("step")
        after = client.sample(3)
        forward = client.send("double", {"x": np.arange(3, dtype=np.float32)})
        replies = client.replies(*before, step, after, forward)
        self.assertEqual(client.order[:3], [*before, step])
        for id in before:
            self.assertEqual(set(replies[id].arrays["tokens"].tolist()), {0})
        self.assertEqual(replies[step].envelope, {"id": step, "ok": True, "count": 1, "drained": True})
        self.assertEqual(replies[after].arrays["tokens"].tolist(), [1, 1, 1])
        self.assertEqual(replies[forward].arrays["x"].tolist(), [0, 2, 4])
        self.assertEqual(client.ask("step")["drained"], False)
        self.assertEqual(client.ask("done")["forgotten"], 2)

    def test_computes_passes_between_the_steps_of_a_sample(self) -> None:
        client = self.opened()
        sample = client.sample(400, stream=True)
        slow = self.hold(client)
        forward = [client.send("double", {"x": np.full(2, i, np.float64)}) for i in range(5)]
        client.until(client.send("ping"))
        held.set()
        client.until(slow)
        for i, id in enumerate(forward):
            frame, events = client.until(id)
            self.assertEqual((frame.arrays["x"].tolist(), events), ([2 * i, 2 * i], 1))
        frame, _ = client.until(sample)
        self.assertEqual((frame.envelope["finish"], frame.arrays["tokens"].size), ("length", 400))

    def test_answers_pings_while_it_computes(self) -> None:
        client = self.opened()
        slow = self.hold(client)
        self.assertEqual(client.ask("stats")["slots"], 4)
        self.assertEqual(client.ask("stacks")["text"], "stacks")
        held.set()
        self.assertTrue(client.replies(slow)[slow].envelope["ok"])
        self.assertIsNone(client.ask("ping")["busy"])

    def test_cancels_what_is_sampled_and_what_has_not_begun(self) -> None:
        client = self.opened()
        sample, kept = client.sample(100_000), client.sample(500)
        slow = self.hold(client)
        waiting = client.send("forward")
        step, behind = client.send("step"), client.sample(100_000)
        client.send("cancel", target=waiting)
        client.send("cancel", target=behind)
        client.send("cancel", target=sample)
        client.send("cancel", target=sample)
        client.send("cancel", target="nonsense")
        client.ask("ping")
        held.set()
        replies = client.replies(sample, kept, slow, waiting, step, behind)
        self.assertEqual(replies[sample].envelope["finish"], "aborted")
        self.assertEqual((replies[behind].envelope["finish"], replies[behind].arrays["tokens"].size), ("aborted", 0))
        self.assertEqual(replies[kept].envelope["finish"], "length")
        self.assertEqual(replies[waiting].envelope["error"]["code"], "ABORTED")
        self.assertTrue(replies[slow].envelope["ok"])
        self.assertEqual(client.ask("done")["done"], ["hold", "step", "done"])

    def test_releases_in_order_and_without_an_answer(self) -> None:
        client = self.opened()
        client.send("backward"), client.send("release"), client.send("vectorRelease")
        self.assertTrue(client.receive().envelope["ok"])
        self.assertEqual(client.ask("done")["done"], ["backward", "release", "vectorRelease", "done"])

    # What survives what.

    def test_answers_an_error_and_lives_on(self) -> None:
        client = self.client()
        self.assertEqual(client.ask("forward")["error"]["code"], "POLICY_CLOSED")
        self.assertEqual(client.ask("stats")["error"]["code"], "POLICY_CLOSED")
        missing = {"code": "MODEL_NOT_FOUND", "message": "No model there.", "hint": "Give a folder."}
        self.assertEqual(client.ask("open", model="missing")["error"], missing)
        self.assertTrue(client.ask("open")["ok"])
        odd = {"code": "ENGINE_FAILED", "message": "throw failed in the worker: ValueError: something odd."}
        self.assertEqual(client.ask("throw")["error"], odd)
        self.assertIn("in two lines", self.log.getvalue())
        error = client.ask("exhaust", {"tokens": np.zeros(9, np.int32)})["error"]
        self.assertEqual(error["code"], "OUT_OF_MEMORY")
        self.assertRegex(error["message"], r"exhaust of 9 tokens .* GiB were free .*2\.00 GiB")
        self.assertIn("tokenBudget", error["hint"])
        self.assertEqual(client.ask("refuse")["error"]["code"], "WRITE_FAILED")
        self.assertEqual(client.ask("hello")["error"]["code"], "INVALID_OPTION")
        error = client.ask("large", length=300_000)["error"]
        self.assertIn("a frame of 12001", error["message"])
        self.assertIsNone(client.ask("something")["nan"])

    def test_answers_samples_that_cannot_be(self) -> None:
        client = self.opened()
        self.assertEqual(client.ask("sample", maxTokens=3)["error"]["code"], "INVALID_OPTION")
        self.assertEqual(client.ask("sample", {"tokens": np.zeros(3)}, maxTokens=3)["error"]["code"], "INVALID_OPTION")
        self.assertEqual(client.ask("sample", {"tokens": np.zeros(3, np.int32)})["error"]["code"], "INVALID_OPTION")
        bad = client.sample(3, temperature=-1)
        self.assertEqual(client.replies(bad)[bad].envelope["error"]["message"], "temperature is negative.")
        good = client.sample(3)
        self.assertTrue(client.replies(good)[good].envelope["ok"])

    def test_fails_all_samples_when_sampling_fails_and_samples_again(self) -> None:
        client = self.opened()
        first, second = client.sample(100_000), client.sample(100_000)
        broken = client.send("breakSampling")
        replies = client.replies(broken, first, second)
        self.assertEqual({replies[id].envelope["error"]["code"] for id in (first, second)}, {"OUT_OF_MEMORY"})
        again = client.sample(2)
        self.assertEqual(client.replies(again)[again].arrays["tokens"].tolist(), [0, 0])
        self.assertEqual(client.ask("stats")["running"], 0)
        self.assertEqual(client.ask("step")["drained"], False)

    def test_closes_the_connection_with_a_reason_and_serves_the_next(self) -> None:
        for data, why in (
            (struct.pack("<Q", 1 << 17), "a frame of 131072 bytes; at most 65536 may be"),
            (bytes(8), "a frame of 0 bytes"),
            (b"".join(encode({"id": 0, "op": "hello"})), "id is not a whole number above the last one"),
            (b"".join(encode({"id": 1, "op": 5})), "a request without an op"),
        ):
            client = self.stranger()
            client.socket.sendall(data)
            self.assert_closed(client)
            self.assertIn(f"connection closed: {why}", self.log.getvalue().replace("a request whose ", ""))
        client = self.opened()
        client.id = 1
        client.send("ping")
        self.assert_closed(client)
        while self.server.client is not None:
            time.sleep(0.01)
        self.opened()

    def test_survives_mutated_frames_of_strangers_and_of_its_client(self) -> None:
        draw = random.Random(4)
        sources = [b"".join(encode({"id": 2, "op": "ping"})), example()]
        for turn in range(200):
            client = self.stranger() if turn % 2 else self.client()
            client.socket.sendall(mutated(draw, draw.choice(sources)))
            client.socket.shutdown(socket.SHUT_WR)
            with contextlib.suppress(Closed, ConnectionResetError):
                while True:
                    client.receive()
            client.close()
            while self.server.client is not None:
                time.sleep(0.001)
        self.opened()
        self.assertGreater(self.log.getvalue().count("connection closed: "), 50)


if __name__ == "__main__":
    unittest.main()

"""Two ranks under torchrun, with the fake engine: what is dealt, gathered and survived, and that all die together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import unittest

import numpy as np

from tests.client import Closed, TestClient
from tests.processes import TORCHRUN, Processes


class TwoRanks(Processes):
    def client(self, *arguments: str) -> TestClient:
        self.launcher = self.start("--socket", self.path("socket"), *arguments, runner=TORCHRUN)
        client = TestClient(self.ready()["address"])
        self.addCleanup(client.close)
        facts = client.hello()
        self.pids += facts["pids"]
        self.ranks = facts["pids"]
        self.assertEqual((facts["world"], len(set(self.ranks))), (2, 2))
        self.assertTrue(client.ask("open")["ok"])
        return client

    def test_work_as_one_until_one_of_them_is_killed(self) -> None:
        client = self.client("--stacks-dir", self.path("stacks"))
        # Samples go to both; a step waits for both.
        samples = [client.sample(40, stream=True) for _ in range(4)]
        step = client.send("step")
        replies = client.replies(*samples, step)
        self.assertEqual(client.order[-1], step)
        self.assertEqual(sorted(replies[id].envelope["rank"] for id in samples), [0, 0, 1, 1])
        self.assertEqual({tuple(replies[id].arrays["tokens"]) for id in samples}, {(0,) * 40})
        self.assertEqual(len(client.events), 4 * 39)
        stats = {"running": 0, "waiting": 0, "slots": 8, "sampledTokens": 160, "versions": 1}
        self.assertEqual(client.ask("stats"), {"id": client.id, "ok": True, **stats})
        # Small and large arrays reach the other rank too: it must not stumble over them.
        for size in (1, 100_000):
            client.ask("double", {"x": np.arange(size, dtype=np.float32)})
            np.testing.assert_array_equal(client.arrays["x"], 2 * np.arange(size))
        self.assertEqual(client.ask("done")["ranks"], [4, 4])
        # A sample that the other rank refuses, an error of both, and one that is foreseen on one of them.
        bad = [client.sample(3, temperature=-1) for _ in range(2)]
        self.assertEqual({frame.envelope["error"]["code"] for frame in client.replies(*bad).values()}, {"INVALID_OPTION"})
        self.assertEqual(client.ask("throw")["error"]["code"], "ENGINE_FAILED")
        self.assertEqual(client.ask("refuse", rank=1)["error"]["code"], "WRITE_FAILED")
        running = client.sample(1_000_000), client.sample(1_000_000)
        broken = client.send("breakSampling")
        replies = client.replies(broken, *running)
        self.assertEqual({replies[id].envelope["error"]["code"] for id in running}, {"OUT_OF_MEMORY"})
        text = client.ask("stacks")["text"]
        self.assertIn("Rank 1:\n", text)
        self.assertNotIn("(no answer)", text)
        client.sample(1_000_000)
        os.kill(self.ranks[1], signal.SIGKILL)
        with self.assertRaises((Closed, ConnectionResetError)):
            while True:
                client.receive()
        self.assertNotEqual(self.launcher.wait(60), 0)
        self.until_gone(*self.ranks)
        # Torchrun names the one that was killed, not those that missed it.
        cause = self.text("err").partition("Root Cause")[2]
        self.assertRegex(cause, rf"rank +: 1 .*\n.*exitcode +: -9 \(pid: {self.ranks[1]}\)")

    def test_end_when_one_fails_alone(self) -> None:
        client = self.client()
        client.send("throw", rank=1)
        with self.assertRaises((Closed, ConnectionResetError)):
            client.receive()
        self.assertNotEqual(self.launcher.wait(60), 0)
        self.until_gone(*self.ranks)
        self.assertIn("rank 1 failed alone: throw failed in the worker: ValueError: something odd", self.text("err"))

    def test_live_on_where_all_lack_memory_and_end_where_one_does(self) -> None:
        client = self.client()
        tokens = np.zeros(4096, np.int32)
        self.assertEqual(client.ask("exhaust", {"tokens": tokens})["error"]["code"], "OUT_OF_MEMORY")
        self.assertTrue(client.ask("step")["ok"])
        client.send("exhaust", {"tokens": tokens}, rank=1)
        with self.assertRaises((Closed, ConnectionResetError)):
            client.receive()
        self.assertNotEqual(self.launcher.wait(60), 0)
        self.until_gone(*self.ranks)
        self.assertRegex(self.text("err"), "rank 1 failed alone: .*4096 tokens")

    def test_end_with_whoever_started_the_launcher(self) -> None:
        other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        client = self.client("--parent", str(other.pid))
        client.sample(1_000_000)
        other.kill()
        other.communicate()
        self.launcher.wait(60)
        self.until_gone(*self.ranks)

    def test_leave_together_after_close(self) -> None:
        client = self.client()
        self.assertTrue(client.ask("close")["ok"])
        client.close()
        self.assertEqual(self.launcher.wait(60), 0)


if __name__ == "__main__":
    unittest.main()

"""One worker as a process: what it refuses to begin with, and that it never outlives whom it belongs to."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import unittest

from tests.client import Closed, TestClient
from tests.processes import PROGRAM, Processes

TOKEN = "c0ffee-and-more-of-it"


class Refusing(Processes):
    def refused(self, *arguments: str, **environment: str) -> str:
        """Its only line."""
        process = self.start(*arguments, **environment)
        self.assertEqual(process.wait(60), 2)
        lines = self.text("err").splitlines()
        self.assertEqual((len(lines), self.text("out")), (1, ""), lines)
        return lines[0].removeprefix("stateset-agents-worker: ")

    def test_says_in_one_line_that_a_port_is_taken(self) -> None:
        with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as other:
            port = other.getsockname()[1]
            line = self.refused("--listen", f"127.0.0.1:{port}", STATESET_WORKER_TOKEN=TOKEN)
        self.assertEqual(line, f"127.0.0.1:{port} is taken by another process.")

    def test_wants_a_token_on_tcp(self) -> None:
        for environment in ({}, {"STATESET_WORKER_TOKEN": ""}):
            self.assertIn("--listen needs a token", self.refused("--listen", "127.0.0.1:0", **environment))

    def test_wants_tls_where_others_can_reach_it(self) -> None:
        self.assertIn("give --tls-cert", self.refused("--listen", "0.0.0.0:0", STATESET_WORKER_TOKEN=TOKEN))

    def test_wants_a_certificate_that_can_be_read(self) -> None:
        line = self.refused("--listen", "0.0.0.0:0", "--tls-cert", self.path("none.pem"), STATESET_WORKER_TOKEN=TOKEN)
        self.assertIn("none.pem cannot be used", line)
        # Whoever gives a key does not mean to do without TLS.
        line = self.refused("--listen", "127.0.0.1:0", "--tls-key", self.path("key.pem"), STATESET_WORKER_TOKEN=TOKEN)
        self.assertIn("without --tls-cert", line)

    def test_wants_frames_that_hold_a_greeting(self) -> None:
        line = self.refused("--listen", "127.0.0.1:0", "--max-frame-bytes", "-5", STATESET_WORKER_TOKEN=TOKEN)
        self.assertIn("--max-frame-bytes is -5", line)

    def test_wants_a_private_folder(self) -> None:
        os.chmod(self.folder, 0o777)
        self.assertIn("can be written by others", self.refused("--socket", self.path("socket")))


class Living(Processes):
    def test_listens_with_tls_and_shows_its_token_nowhere(self) -> None:
        if shutil.which("openssl") is None:
            self.skipTest("openssl makes the certificate")
        cert, key = self.path("cert.pem"), self.path("key.pem")
        make = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=localhost -addext subjectAltName=DNS:localhost -days 2".split()
        subprocess.run([*make, "-keyout", key, "-out", cert], check=True, capture_output=True)
        own = ("--tls-cert", cert, "--tls-key", key, "--stacks-dir", f"{cert}/stacks")
        process = self.start("--listen", "127.0.0.1:0", *own, STATESET_WORKER_TOKEN=TOKEN)
        host, port = self.ready()["address"].split(":")
        tls = ssl.create_default_context(cafile=cert)
        wrong = TestClient((host, int(port)), tls)
        self.assertEqual(wrong.hello(token=TOKEN + "!")["error"]["code"], "WORKER_REFUSED")
        client = TestClient((host, int(port)), tls)
        self.assertEqual(client.hello(token=TOKEN)["pids"], [process.pid])
        self.assertTrue(client.ask("open")["ok"])
        # Without a folder for stacks, since none could be made there, they can be asked for all the same.
        self.assertRegex(client.ask("stacks")["text"], r'worker\.py", line \d+ in run')
        process.send_signal(signal.SIGUSR1)
        self.until(lambda: "in run_forever" in self.text("err"))
        with self.assertRaises((Closed, ConnectionResetError)):
            TestClient((host, int(port))).hello(token=TOKEN)
        client.close()

        def next_one() -> bool:
            with contextlib.closing(TestClient((host, int(port)), tls)) as second:
                return second.hello(token=TOKEN)["ok"]

        self.until(next_one)
        shown = subprocess.run(["ps", "-ww", "-o", "args=", "-p", str(process.pid)], check=True, capture_output=True, text=True).stdout
        self.assertIn("--listen", shown)
        for text in (self.text("out"), self.text("err"), shown):
            self.assertNotIn(TOKEN, text)
        self.assertIsNone(process.poll())
        wrong.close()

    def test_leaves_with_0_after_close_and_with_1_when_its_client_goes_in_the_midst(self) -> None:
        for closes, code in ((True, 0), (False, 1)):
            process = self.start("--socket", self.path(f"socket{code}"), "--stacks-dir", self.path("stacks"))
            client = TestClient(self.ready()["address"])
            client.hello()
            client.ask("open")
            if closes:
                text = client.ask("stacks")["text"]
                self.assertIn("Rank 0:", text)
                for shown in (text, self.text("stacks/rank-0.txt")):
                    self.assertRegex(shown, r'worker\.py", line \d+ in run')
                self.assertTrue(client.ask("close")["ok"])
            else:
                client.sample(1_000_000)
            client.close()
            self.assertEqual(process.wait(60), code)
        self.assertIn("the client is gone", self.text("err"))
        # What the first left is there after the second, which began in the same folder.
        self.assertRegex(self.text("stacks/rank-0.txt"), r'worker\.py", line \d+ in run')

    def test_dies_with_its_parent(self) -> None:
        starts = f"import subprocess, sys; subprocess.run([sys.executable, {PROGRAM!r}, '--socket', {self.path('socket')!r}])"
        with open(self.path("out"), "w") as out, open(self.path("err"), "w") as err:
            parent = subprocess.Popen([sys.executable, "-c", starts], stdout=out, stderr=err)
        self.addCleanup(parent.wait)
        client = TestClient(self.ready()["address"])
        (pid,) = client.hello()["pids"]
        parent.send_signal(signal.SIGKILL)
        self.until_gone(pid)
        client.close()

    def test_dies_with_the_process_it_is_told_to_watch(self) -> None:
        other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        process = self.start("--socket", self.path("socket"), "--parent", str(other.pid))
        self.ready()
        other.kill()
        other.communicate()
        self.assertEqual(process.wait(60), 1)
        self.assertIn("is gone", self.text("err"))
        again = self.start("--socket", self.path("another"), "--parent", str(other.pid))
        self.assertEqual(again.wait(60), 1)


if __name__ == "__main__":
    unittest.main()

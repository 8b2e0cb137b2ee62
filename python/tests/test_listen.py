"""Where a worker may listen."""

from __future__ import annotations

import contextlib
import os
import socket
import tempfile
import unittest

from stateset_agents_worker.listen import ListenError, bind_tcp, listen_unix, split_address


class Listening(unittest.TestCase):
    def test_refuses_a_folder_that_others_can_write_and_a_path_that_is_taken(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "socket")
            os.chmod(folder, 0o770)
            with self.assertRaisesRegex(ListenError, "can be written by others"):
                listen_unix(path)
            os.chmod(folder, 0o700)
            with contextlib.closing(listen_unix(path)):
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
                with self.assertRaisesRegex(ListenError, "in use"):
                    listen_unix(path)
            with self.assertRaisesRegex(ListenError, "too long"):
                listen_unix(os.path.join(folder, "x" * 200))
            with self.assertRaisesRegex(ListenError, "No such file"):
                listen_unix(os.path.join(folder, "absent", "socket"))

    def test_turns_clients_away_until_it_is_ready(self) -> None:
        with contextlib.closing(bind_tcp("127.0.0.1", 0)) as listener:
            with self.assertRaises(ConnectionRefusedError):
                socket.create_connection(listener.getsockname())
            listener.listen()
            with self.assertRaisesRegex(ListenError, "is taken by another process"):
                bind_tcp(*listener.getsockname())

    def test_reads_addresses(self) -> None:
        self.assertEqual(split_address("localhost:80"), ("localhost", 80))
        self.assertEqual(split_address("[::1]:80"), ("::1", 80))
        for wrong in ("localhost", ":80", "host:", "host:x", "host:70000", "host:-1"):
            with self.assertRaises(ListenError):
                split_address(wrong)


if __name__ == "__main__":
    unittest.main()

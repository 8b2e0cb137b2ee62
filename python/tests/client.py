"""A client for tests, as plain as can be: one blocking socket."""

from __future__ import annotations

import socket
from typing import Any

import numpy as np

from stateset_agents_worker import __version__
from stateset_agents_worker.frames import MAX_FRAME_BYTES, Frame, FrameReader, encode


class Closed(Exception):
    pass


class TestClient:
    def __init__(self, address: str | tuple[str, int], tls: Any = None) -> None:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(60)
        self.socket.connect(address)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname="localhost")
        self.reader = FrameReader(MAX_FRAME_BYTES)
        self.frames: list[Frame] = []
        self.id = 0

    def send(self, op: str, arrays: dict[str, np.ndarray] | None = None, **options: Any) -> int:
        self.id += 1
        self.socket.sendall(b"".join(bytes(part) for part in encode({"id": self.id, "op": op, **options}, arrays)))
        return self.id

    def receive(self) -> Frame:
        while not self.frames:
            data = self.socket.recv(1 << 16)
            if not data:
                raise Closed
            self.frames += self.reader.feed(data)
        return self.frames.pop(0)

    def ask(self, op: str, arrays: dict[str, np.ndarray] | None = None, **options: Any) -> dict[str, Any]:
        """The next reply must be to this request."""
        id = self.send(op, arrays, **options)
        frame = self.receive()
        assert frame.envelope["id"] == id, frame.envelope
        self.arrays = frame.arrays
        return frame.envelope

    def hello(self, **changes: Any) -> dict[str, Any]:
        return self.ask("hello", **{"protocol": 1, "version": __version__, **changes})

    def sample(self, max_tokens: int, **options: Any) -> int:
        return self.send("sample", {"tokens": np.arange(3, dtype=np.int32)}, maxTokens=max_tokens, **options)

    def replies(self, *ids: int) -> dict[int, Frame]:
        """The final answers to these requests, whatever their order; `self.order` says which it was."""
        found: dict[int, Frame] = {}
        self.order: list[int] = []
        self.events: list[Frame] = []
        while len(found) < len(ids):
            frame = self.receive()
            if "event" in frame.envelope:
                self.events.append(frame)
                continue
            found[frame.envelope["id"]] = frame
            self.order.append(frame.envelope["id"])
        assert set(found) == set(ids), (set(found), ids)
        return found

    def until(self, id: int) -> tuple[Frame, int]:
        """The answer to this request, and how many events came before it."""
        events = 0
        while True:
            frame = self.receive()
            if "event" not in frame.envelope:
                assert frame.envelope["id"] == id, frame.envelope
                return frame, events
            events += 1

    def close(self) -> None:
        self.socket.close()

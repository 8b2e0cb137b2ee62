"""The socket of rank 0: one thread reads and writes, greets, and answers what must be answered whatever the device does."""

from __future__ import annotations

import asyncio
import concurrent.futures
import hmac
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import __version__
from .errors import WorkerError
from .frames import MAX_FIRST_FRAME_BYTES, MAX_FRAME_BYTES, MAX_SAFE_INTEGER, Frame, FrameError, FrameReader, encode
from .lifeline import end, log
from .listen import cannot_listen
from .turn import Arrays
from .worker import QUIET, Gone, Request, Worker

PROTOCOL = 1
GREETING_SECONDS = 20.0
FIRST_CLIENT_SECONDS = 120.0
STACKS_SECONDS = 0.5
# Strangers who have connected and not greeted yet.
MAX_STRANGERS = 16
MAX_IN_FLIGHT = 1 << 16
SAME_VERSION = "Install the same version on both sides."


class Busy(WorkerError):
    """It may be worth asking again: a client whose network broke counts as the one it is busy with, until TCP gives that one up."""

    def envelope(self) -> dict[str, Any]:
        return {**super().envelope(), "busy": True}


@dataclass
class Door:
    """`listener` is bound already. `token`: what a client must know; None on a private socket. `facts`: what the greeting tells."""

    listener: Any
    facts: dict[str, Any]
    token: str | None = None
    tls: ssl.SSLContext | None = None
    ends_with_client: bool = False
    max_frame_bytes: int = MAX_FRAME_BYTES


class Server:
    """`stacks()` asks every rank for its stacks; what it returns reads them a moment later, with the ranks that gave none."""

    def __init__(self, door: Door, worker: Worker, stacks: Callable[[], Callable[[], tuple[str, list[int]]]]) -> None:
        self.door = door
        self.worker = worker
        self.stacks = stacks
        self.client: Connection | None = None
        self.strangers = 0
        self.loop = asyncio.new_event_loop()

    def start(self) -> None:
        """Accepts clients from now on."""
        started = threading.Event()
        threading.Thread(target=self._run, args=(started,), name="socket", daemon=True).start()
        started.wait()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self.loop)
        door = self.door
        make = self.loop.create_unix_server if is_unix(door.listener) else self.loop.create_server
        handshake = {} if door.tls is None else {"ssl_handshake_timeout": GREETING_SECONDS}
        try:
            self.loop.run_until_complete(make(lambda: Connection(self), sock=door.listener, ssl=door.tls, **handshake))
        except OSError as problem:
            # Another one was bound to the same port, and listened first.
            end(2, str(cannot_listen(*door.listener.getsockname()[:2], problem)))
        if door.ends_with_client:
            self.loop.call_later(FIRST_CLIENT_SECONDS, self._nobody_came)
        started.set()
        self.loop.run_forever()

    def _nobody_came(self) -> None:
        if self.client is None:
            end(1, f"no client came within {FIRST_CLIENT_SECONDS:.0f} seconds.")

    def greet(self, hello: dict[str, Any]) -> dict[str, Any]:
        """The answer to a good greeting; raises WORKER_REFUSED with the reason."""
        if hello.get("op") != "hello":
            raise refused("The first request must be hello.")
        token = hello.get("token")
        if self.door.token is not None and not same(token, self.door.token):
            what = "no token" if token is None else "a token that is not this worker's"
            raise refused(f"The client gave {what}.", "Set STATESET_WORKER_TOKEN to the same value on both machines.")
        if hello.get("protocol") != PROTOCOL:
            theirs = ascii(hello.get("protocol"))[:40]
            raise refused(f"The client speaks protocol {theirs}, the worker {PROTOCOL}.", SAME_VERSION)
        if hello.get("version") != __version__:
            theirs = ascii(hello.get("version"))[:40]
            raise refused(f"The client is version {theirs}, the worker {__version__}.", SAME_VERSION)
        if self.client is not None:
            raise Busy("WORKER_REFUSED", "The worker is busy with another client.", "It takes one at a time; wait until that one is done.")
        return {"protocol": PROTOCOL, "version": __version__, "maxFrameBytes": self.door.max_frame_bytes, **self.door.facts}

    def gone(self, client: Connection) -> None:
        """A spawned worker at rest leaves with all its ranks; in the midst of work it just ends, and torchrun ends the rest."""
        self.client = None
        if self.door.ends_with_client and not self.worker.at_rest:
            end(1, "the client is gone.")
        self.worker.inbox.put(Gone(client))


class Connection(asyncio.Protocol):
    def __init__(self, server: Server) -> None:
        self._server = server
        self._reader = FrameReader(MAX_FIRST_FRAME_BYTES)
        self._transport: Any = None
        self._greeted = False
        self._last_id = 0
        self._in_flight = 0

    # From any thread.

    def send(self, envelope: dict[str, Any], arrays: Arrays | None = None) -> None:
        try:
            parts = encode(envelope, arrays, self._server.door.max_frame_bytes)
        except FrameError as problem:
            error = WorkerError("INVALID_OPTION", f"The answer cannot be sent: {problem}.", "Ask for less at a time.")
            envelope = {"id": envelope["id"], "ok": False, "error": error.envelope()}
            parts = encode(envelope)
        self._server.loop.call_soon_threadsafe(self._write, parts, "ok" in envelope)

    def flush(self) -> None:
        """Returns when what was sent has left, or after two seconds."""

        async def empty() -> None:
            while self._transport.get_write_buffer_size() > 0:
                await asyncio.sleep(0.01)

        try:
            asyncio.run_coroutine_threadsafe(empty(), self._server.loop).result(2)
        except concurrent.futures.TimeoutError:
            return

    # In the thread of the socket.

    def _write(self, parts: list[Any], final: bool) -> None:
        self._in_flight -= final
        if not self._transport.is_closing():
            self._transport.writelines(parts)

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        server = self._server
        server.strangers += 1
        if server.strangers > MAX_STRANGERS:
            transport.abort()
        else:
            server.loop.call_later(GREETING_SECONDS, self._late)

    def _late(self) -> None:
        if not self._greeted and not self._transport.is_closing():
            self._drop("it did not greet in time")

    def connection_lost(self, _error: Exception | None) -> None:
        if self._greeted:
            if not self._reader.between:
                log("the client was cut off within a frame.")
            self._server.gone(self)
        else:
            self._server.strangers -= 1

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._reader.feed(data):
                if self._transport.is_closing():
                    return
                self._take(frame)
        except FrameError as problem:
            self._drop(str(problem))

    def _drop(self, reason: str) -> None:
        log(f"connection closed: {reason}.")
        self._transport.abort()

    def _take(self, frame: Frame) -> None:
        envelope = frame.envelope
        op, id = envelope.pop("op", None), envelope.pop("id", None)
        if not isinstance(op, str):
            raise FrameError("a request without an op")
        if op in QUIET and id is None:
            id = 0
        elif type(id) is not int or not self._last_id < id <= MAX_SAFE_INTEGER:
            raise FrameError("a request whose id is not a whole number above the last one")
        else:
            self._last_id = id
        if not self._greeted:
            self._greet({**envelope, "op": op}, id)
        elif op in QUIET:
            self._server.worker.inbox.put(Request(self, id, op, envelope, frame.arrays))
        else:
            self._in_flight += 1
            if self._in_flight > MAX_IN_FLIGHT:
                raise FrameError(f"more than {MAX_IN_FLIGHT} requests in flight")
            self._dispatch(Request(self, id, op, envelope, frame.arrays))

    def _greet(self, hello: dict[str, Any], id: int) -> None:
        server = self._server
        try:
            facts = server.greet(hello)
        except WorkerError as error:
            log(f"client refused: {error}")
            self._transport.writelines(encode({"id": id, "ok": False, "error": error.envelope()}))
            self._transport.close()
            return
        self._greeted = True
        self._reader.limit = server.door.max_frame_bytes
        server.strangers -= 1
        server.client = self
        self._transport.writelines(encode({"id": id, "ok": True, **facts}))

    def _dispatch(self, request: Request) -> None:
        server = self._server
        if request.op == "ping":
            self.send({"id": request.id, "ok": True, "busy": server.worker.busy})
        elif request.op == "stats":
            try:
                self.send({"id": request.id, "ok": True, **server.worker.stats()})
            except WorkerError as error:
                self.send({"id": request.id, "ok": False, "error": error.envelope()})
        elif request.op == "stacks":
            read = server.stacks()

            def answer() -> None:
                text, silent = read()
                self.send({"id": request.id, "ok": True, "text": text, "silent": silent})

            server.loop.call_later(STACKS_SECONDS, answer)
        elif request.op == "hello":
            error = WorkerError("INVALID_OPTION", "The client has greeted already.")
            self.send({"id": request.id, "ok": False, "error": error.envelope()})
        else:
            server.worker.inbox.put(request)


def same(given: Any, token: str) -> bool:
    """Takes as long whatever was given."""
    text = given if isinstance(given, str) else ""
    return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), token.encode("utf-8", "surrogatepass"))


def is_unix(listener: Any) -> bool:
    return isinstance(listener.getsockname(), str)


def refused(message: str, hint: str | None = None) -> WorkerError:
    return WorkerError("WORKER_REFUSED", message, hint)

"""`python -m stateset_agents_worker`, alone or under torchrun: rank 0 listens, every rank computes."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Any

from . import __version__
from .frames import MAX_FIRST_FRAME_BYTES, MAX_FRAME_BYTES
from .lifeline import Stacks, die_with_parent, end, log, watch
from .listen import ListenError, bind_tcp, listen_unix, shown, split_address, stays_here, tls_context
from .ranks import Ranks
from .serve import PROTOCOL, Door, Server, is_unix
from .turn import Hands
from .worker import Worker

TOKEN = "STATESET_WORKER_TOKEN"


def main(argv: Sequence[str] | None = None, open_engine: Callable[[dict[str, Any], Ranks], Any] | None = None) -> int:
    options = parse(argv)
    # Gone from the environment of whatever is started from here.
    token = os.environ.pop(TOKEN, None)
    spawned = options.socket is not None
    under_torchrun = "TORCHELASTIC_RUN_ID" in os.environ
    if spawned or under_torchrun:
        die_with_parent()
    if options.parent is not None:
        watch(options.parent)
    if spawned:
        # Ctrl-C is for the client: it may want to finish its step.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    rank = int(os.environ.get("RANK", "0"))
    stacks = Stacks(options.stacks_dir, rank)
    door = None
    if rank == 0:
        try:
            door = make_door(options, token)
        except ListenError as problem:
            log(str(problem))
            return 2
    ranks = Ranks.join()
    hands = Hands(ranks, open_engine or open_real_engine)
    about = ranks.gather(about_this_process(ranks))
    if door is None:
        hands.follow()
    else:
        serve(door, hands, about, stacks)
    ranks.leave()
    end(0)


def serve(door: Door, hands: Hands, about: list[dict[str, Any]], stacks: Stacks) -> None:
    host = socket.gethostname()
    door.facts = {
        "world": hands.ranks.world,
        "device": hands.ranks.device.type,
        "gpus": [one["gpu"] for one in about if one["gpu"] is not None],
        "pids": [one["pid"] for one in about],
        "host": host,
        **versions(),
    }
    here = {rank: one["pid"] for rank, one in enumerate(about) if one["host"] == host}

    def ask() -> Callable[[], tuple[str, list[int]]]:
        asked = stacks.ask(here)
        return lambda: stacks.answers(asked) if asked else (stacks.of_this_process(), [])

    worker = Worker(hands, door.ends_with_client)
    Server(door, worker, ask).start()
    name = door.listener.getsockname()
    address = name if is_unix(door.listener) else shown(*name[:2])
    ready = {"ready": True, "address": address, "protocol": PROTOCOL, "version": __version__, "world": hands.ranks.world}
    print(json.dumps(ready), flush=True)
    worker.run()


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    about = f"The PyTorch worker of StateSet Agents. TCP needs a token in {TOKEN}."
    parser = argparse.ArgumentParser(prog="stateset-agents-worker", allow_abbrev=False, description=about)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--socket", metavar="PATH", help="a Unix socket to make in a private folder; the worker ends with its client")
    where.add_argument("--listen", metavar="HOST:PORT", help="take one client after the other; needs TLS unless HOST is this machine")
    parser.add_argument("--tls-cert", metavar="FILE", help="certificate chain (PEM)")
    parser.add_argument("--tls-key", metavar="FILE", help="its private key (PEM)")
    parser.add_argument("--parent", metavar="PID", type=int, help="end when this process ends")
    parser.add_argument("--stacks-dir", metavar="DIR", help="SIGUSR1 writes the stacks of rank N to DIR/rank-N.txt")
    largest = "the largest message taken or sent (default %(default)s)"
    parser.add_argument("--max-frame-bytes", metavar="N", type=int, default=MAX_FRAME_BYTES, help=largest)
    parser.add_argument("--version", action="version", version=__version__)
    return parser.parse_args(argv)


def make_door(options: argparse.Namespace, token: str | None) -> Door:
    if options.max_frame_bytes < MAX_FIRST_FRAME_BYTES:
        raise ListenError(f"--max-frame-bytes is {options.max_frame_bytes}; a greeting alone may take {MAX_FIRST_FRAME_BYTES}.")
    if options.tls_key is not None and options.tls_cert is None:
        raise ListenError("--tls-key is of no use without --tls-cert.")
    if options.socket is not None:
        return Door(listen_unix(options.socket), {}, ends_with_client=True, max_frame_bytes=options.max_frame_bytes)
    if not token:
        raise ListenError(f"--listen needs a token: set {TOKEN} to a long random text, here and for the client.")
    tls = None if options.tls_cert is None else tls_context(options.tls_cert, options.tls_key)
    host, port = split_address(options.listen)
    listener = bind_tcp(host, port)
    if tls is None and not stays_here(listener):
        hint = "give --tls-cert and --tls-key, or listen on 127.0.0.1."
        raise ListenError(f"--listen {options.listen} can be reached by other machines: {hint}")
    return Door(listener, {}, token, tls, max_frame_bytes=options.max_frame_bytes)


def about_this_process(ranks: Ranks) -> dict[str, Any]:
    gpu = None
    if ranks.device.type == "cuda":
        import torch

        properties = torch.cuda.get_device_properties(ranks.device)
        gpu = {"name": properties.name, "totalBytes": properties.total_memory}
    return {"pid": os.getpid(), "host": socket.gethostname(), "gpu": gpu}


def versions() -> dict[str, Any]:
    def of(package: str) -> str | None:
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return None

    quantises = importlib.util.find_spec("bitsandbytes") is not None
    return {**{name: of(name) for name in ("torch", "transformers", "peft")}, "bitsandbytes": quantises}


def open_real_engine(options: dict[str, Any], ranks: Ranks) -> Any:
    from .engine import Engine

    return Engine.open(options, ranks)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        end(130, "stopped.")

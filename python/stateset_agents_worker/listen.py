"""Where the worker may be reached: a socket in a private folder, or TCP with a token, and TLS unless it stays on this machine."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import ssl
import stat
from pathlib import Path


class ListenError(Exception):
    """Why this address will not do, in one line."""


def listen_unix(path: str) -> socket.socket:
    """Others must not be able to write to its folder: they could put another socket in its place."""
    folder = Path(path).absolute().parent
    try:
        state = folder.stat()
    except OSError as problem:
        raise ListenError(f"the folder of {path} cannot be used: {problem.strerror}.") from None
    if state.st_uid != os.geteuid() or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ListenError(f"the folder of {path} can be written by others; make one of your own (chmod 700).")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(path)
    except OSError as problem:
        listener.close()
        raise ListenError(f"{path} cannot be used: {problem.strerror or problem}.") from None
    finally:
        os.umask(before)
    return listener


def bind_tcp(host: str, port: int) -> socket.socket:
    """Only bound: a port that is taken is known at once, and a client that comes before all ranks have met is turned away, not kept."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as problem:
        raise cannot_listen(host, port, problem) from None
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted connections take this over: a client whose machine is gone does not keep the worker for ever.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # The last, in ms, where something was sent and never acknowledged: then keepalive is not asked. The client waits for this long.
        for name, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 4), ("TCP_USER_TIMEOUT", 60_000)):
            if hasattr(socket, name):
                listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        listener.bind(address)
    except OSError as problem:
        listener.close()
        raise cannot_listen(host, port, problem) from None
    return listener


def cannot_listen(host: str, port: int, problem: OSError) -> ListenError:
    if problem.errno == errno.EADDRINUSE:
        return ListenError(f"{shown(host, port)} is taken by another process.")
    return ListenError(f"cannot listen on {shown(host, port)}: {problem.strerror or problem}.")


def split_address(text: str) -> tuple[str, int]:
    """`host:port`, `[v6]:port`."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ListenError(f"--listen {text} is not host:port.")
    return host, int(port)


def stays_here(listener: socket.socket) -> bool:
    return ipaddress.ip_address(listener.getsockname()[0].partition("%")[0]).is_loopback


def tls_context(certificate: str, key: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as problem:
        raise ListenError(f"the certificate {certificate} cannot be used: {problem}.") from None
    return context


def shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

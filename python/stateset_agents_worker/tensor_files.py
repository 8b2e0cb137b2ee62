"""Safetensors files, written by all ranks at once and hashed as they are written, and read without a copy of what is not wanted."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from .errors import WorkerError, as_worker_error, last_line
from .ranks import Ranks

#: Bytes of tensors in one file, unless a single tensor has more.
MOST_BYTES = 4 << 30
_DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16}

#: As the TypeScript has it: file (its name in the folder), bytes, sha256.
StoredFile = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True)
class Entry:
    """A tensor to be written. Every rank asks for it at the same time, since it may lie on all; only who writes it is given it."""

    name: str
    shape: tuple[int, ...]
    whole: Callable[[bool], Tensor | None]
    dtype: str = "F32"

    @property
    def bytes(self) -> int:
        return torch.Size(self.shape).numel() * _DTYPES[self.dtype].itemsize


def agreed(ranks: Ranks, work: Callable[[], T]) -> T:
    """What may fail on one rank alone, as its disk may, fails on all: nobody waits for one that has given up. No collectives inside."""
    found, error = None, None
    try:
        found = work()
    except OSError as thrown:
        error = write_failed(thrown.filename or "A file", thrown)
    except Exception as thrown:
        # Nobody foresaw it, or so it is said; the others wait for this rank all the same.
        error = as_worker_error(thrown, "Work on files")
        if error is not thrown:
            traceback.print_exception(thrown, file=sys.stderr)
    errors = [each for each in ranks.gather(error) if each is not None]
    if errors:
        raise errors[0]
    return found  # type: ignore[return-value]


def need(so: bool, what: str) -> None:
    """Of what a small file says."""
    if not so:
        raise ValueError(f"{what} is not as it should be")


def write_failed(path: str, thrown: OSError) -> WorkerError:
    why = thrown.strerror or last_line(thrown)
    return WorkerError("WRITE_FAILED", f"{path} could not be written: {why}.", "Check the folder, its permissions and the free space.")


def deal_shards(entries: list[Entry], world: int, most: int) -> list[tuple[int, list[Entry]]]:
    """Who writes which, by name: about as many bytes on each rank, in files that are not too large."""
    total = sum(entry.bytes for entry in entries)
    shards: list[tuple[int, list[Entry]]] = []
    before = in_shard = 0
    for entry in sorted(entries, key=lambda entry: entry.name):
        rank = min(world - 1, before * world // max(total, 1))
        if not shards or shards[-1][0] != rank or in_shard + entry.bytes > most:
            shards.append((rank, []))
            in_shard = 0
        shards[-1][1].append(entry)
        in_shard += entry.bytes
        before += entry.bytes
    return shards


def write_shards(
    ranks: Ranks,
    folder: str,
    stem: str,
    entries: list[Entry],
    metadata: dict[str, str] | None = None,
    most: int = MOST_BYTES,
    alone: str | None = None,
) -> list[tuple[StoredFile, list[Entry]]]:
    """
    Every rank writes files of its own, and all of them answer which there are: `policy-00001-of-00003.safetensors`. `alone`: what a
    file is called that needs no other.
    """
    shards = deal_shards(entries, ranks.world, most)
    names = [f"{stem}-{number:05}-of-{len(shards):05}.safetensors" for number in range(1, len(shards) + 1)]
    if len(names) == 1 and alone is not None:
        names = [alone]
    files = [_File(os.path.join(folder, name), shard, metadata) if rank == ranks.rank else None for name, (rank, shard) in zip(names, shards)]
    # In turns, so that every rank has something to write while tensors are put together for the others.
    queues: list[list[tuple[int, Entry]]] = [[] for _ in range(ranks.world)]
    for number, (rank, shard) in enumerate(shards):
        queues[rank] += [(number, entry) for entry in shard]
    writer = _Writer(folder)
    try:
        for turn in range(max((len(queue) for queue in queues), default=0)):
            for rank, queue in enumerate(queues):
                if turn >= len(queue):
                    continue
                number, entry = queue[turn]
                tensor = entry.whole(rank == ranks.rank)
                if rank == ranks.rank:
                    writer.write(files[number], entry, tensor)  # type: ignore[arg-type]
        own = agreed(ranks, writer.end)
    finally:
        writer.close()
    stored = {name: stored for one in ranks.gather(own) for name, stored in one.items()}
    return [(stored[name], shard) for name, (_, shard) in zip(names, shards)]


class _File:
    """One file of whole tensors: known from its first byte, so that it can be written from the first to the last."""

    def __init__(self, path: str, entries: list[Entry], metadata: dict[str, str] | None) -> None:
        self.path, self.left = path, len(entries)
        head: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
        offset = 0
        for entry in entries:
            head[entry.name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [offset, offset + entry.bytes]}
            offset += entry.bytes
        text = json.dumps(head, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        self.head = len(text).to_bytes(8, "little") + text
        self.bytes = len(self.head) + offset


class _Writer:
    """One file after the other: the disk has a piece while it is hashed, and the next tensor is fetched meanwhile."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._threads = ThreadPoolExecutor(2)
        self._pending: list[Future[Any]] = []
        self._open: tuple[_File, Any, Any] | None = None
        self._stored: dict[str, StoredFile] = {}
        self._error: WorkerError | None = None

    def write(self, file: _File, entry: Entry, tensor: Tensor | None) -> None:
        """After a failure it takes no more, but the caller goes on to take part in what all ranks do."""
        if self._error is not None:
            return
        try:
            if self._open is None:
                os.makedirs(self._folder, exist_ok=True)
                self._open = (file, open(f"{file.path}.{os.getpid()}-{secrets.token_hex(4)}.tmp", "xb"), hashlib.sha256())
                self._put(file.head)
            assert tensor is not None and tuple(tensor.shape) == entry.shape
            data = tensor.detach().to("cpu", _DTYPES[entry.dtype]).contiguous().reshape(-1).view(torch.uint8).numpy()
            self._put(memoryview(data))
            file.left -= 1
            if file.left == 0:
                self._finish()
        except OSError as thrown:
            self._error = write_failed(file.path, thrown)

    def _put(self, data: Any) -> None:
        _, handle, digest = self._open  # type: ignore[misc]
        self._wait()
        self._pending = [self._threads.submit(handle.write, data), self._threads.submit(digest.update, data)]

    def _wait(self) -> None:
        pending, self._pending = self._pending, []
        for future in pending:
            future.result()

    def _finish(self) -> None:
        self._wait()
        file, handle, digest = self._open  # type: ignore[misc]
        handle.flush()
        os.fsync(handle.fileno())
        handle.close()
        os.replace(handle.name, file.path)
        self._open = None
        name = os.path.basename(file.path)
        self._stored[name] = {"file": name, "bytes": file.bytes, "sha256": digest.hexdigest()}

    def end(self) -> dict[str, StoredFile]:
        if self._error is not None:
            raise self._error
        if self._stored:
            sync_folder(self._folder)
        return self._stored

    def close(self) -> None:
        self._threads.shutdown()
        if self._open is not None:
            # The failure that matters is the first one.
            for undo in (self._open[1].close, lambda name=self._open[1].name: os.unlink(name)):
                with contextlib.suppress(OSError):
                    undo()


def store_json(folder: str, name: str, value: Any) -> StoredFile:
    return store_bytes(folder, name, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def store_bytes(folder: str, name: str, data: bytes) -> StoredFile:
    """The old file or the whole new one, also when the process dies halfway."""
    path = os.path.join(folder, name)
    temporary = f"{path}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
    try:
        os.makedirs(folder, exist_ok=True)
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        sync_folder(folder)
    except OSError as thrown:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise write_failed(path, thrown) from thrown
    return {"file": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def sync_folder(folder: str) -> None:
    """Makes a rename inside it durable."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class StoredTensors:
    """Tensors of several files as of one, by name. Rows are read when they are asked for."""

    def __init__(self, paths: list[str], code: str = "CHECKPOINT_INVALID") -> None:
        from safetensors import SafetensorError, safe_open

        self._code = code
        self._home: dict[str, Any] = {}
        for path in paths:
            try:
                file = safe_open(path, framework="pt", device="cpu")
                self._home.update({name: file for name in file.keys()})
            except (OSError, SafetensorError) as thrown:
                raise WorkerError(code, f"{path} cannot be read: {last_line(thrown)}.") from thrown

    @property
    def names(self) -> list[str]:
        return list(self._home)

    def __contains__(self, name: object) -> bool:
        return name in self._home

    def __getitem__(self, name: str) -> Tensor:
        return self.read(name)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._home[name].get_slice(name).get_shape())

    def read(self, name: str, rows: range | None = None) -> Tensor:
        """f32. Numbers that are none are damage."""
        from safetensors import SafetensorError

        try:
            if rows is None:
                found = self._home[name].get_tensor(name)
            elif len(rows) == 0:
                return torch.zeros(0, *self.shape(name)[1:])
            else:
                found = self._home[name].get_slice(name)[rows.start : rows.stop]
        except (OSError, SafetensorError) as thrown:
            raise WorkerError(self._code, f"{name} cannot be read: {last_line(thrown)}.") from thrown
        found = found.float()
        if not torch.isfinite(found).all():
            raise WorkerError(self._code, f"{name} holds numbers that are not finite.")
        return found

"""The frames of the wire, as `policy/torch/frame.ts` writes and reads them.

A frame is a u64 (little-endian) N and N bytes: a safetensors blob. Its metadata holds the envelope as JSON text, its tensors
are one-dimensional arrays without gaps, widest elements first, so that each can be viewed where it lies. Whatever breaks a rule
raises FrameError, and the connection is closed: nothing of a damaged frame is believed. Memory is taken as bytes arrive, never
because a length was announced. Needs json, struct and numpy alone.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

MAX_FRAME_BYTES = 1 << 30
# Before the greeting succeeded nobody is trusted with more.
MAX_FIRST_FRAME_BYTES = 64 << 10
MAX_HEADER_BYTES = 1 << 20
MAX_ARRAYS = 64
MAX_DEPTH = 16
FIRST_PIECE_BYTES = 1 << 20
MAX_SAFE_INTEGER = (1 << 53) - 1

DTYPES = {name: np.dtype(code) for name, code in (("I64", "<i8"), ("F64", "<f8"), ("I32", "<i4"), ("F32", "<f4"), ("U8", "|u1"))}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_ARRAY_NAME = re.compile(r"[a-zA-Z]+")
_U64 = struct.Struct("<Q")


class FrameError(Exception):
    """Why a frame cannot be read or written; the connection it came from is closed."""


@dataclass(frozen=True)
class Frame:
    envelope: dict[str, Any]
    arrays: dict[str, np.ndarray]


def encode(envelope: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None, limit: int = MAX_FRAME_BYTES) -> list[Any]:
    """The parts of a frame, in order: its head, then each array where it lies (not copied: leave it unchanged until it is sent)."""
    header: dict[str, Any] = {"__metadata__": {"frame": _dumps(envelope)}}
    parts: list[Any] = []
    offset = 0
    ordered = sorted((arrays or {}).items(), key=lambda item: -item[1].dtype.itemsize)
    if len(ordered) > MAX_ARRAYS:
        raise FrameError(f"{len(ordered)} arrays in one frame; at most {MAX_ARRAYS} may be")
    for name, array in ordered:
        dtype = _NAMES.get(array.dtype.newbyteorder("<") if array.dtype.itemsize > 1 else array.dtype)
        if dtype is None or not _ARRAY_NAME.fullmatch(name):
            raise FrameError(f"array {name!r} of {array.dtype} cannot be sent")
        flat = np.ascontiguousarray(array, dtype=DTYPES[dtype]).reshape(-1)
        header[name] = {"dtype": dtype, "shape": [flat.size], "data_offsets": [offset, offset + flat.nbytes]}
        offset += flat.nbytes
        if flat.size:
            parts.append(flat.view(np.uint8).data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    total = 8 + len(text) + offset
    if len(text) > MAX_HEADER_BYTES:
        raise FrameError(f"a header of {len(text)} bytes; at most {MAX_HEADER_BYTES} may be")
    if total > limit:
        raise FrameError(f"a frame of {total} bytes; at most {limit} may be")
    return [_U64.pack(total) + _U64.pack(len(text)) + text, *parts]


def decode(blob: np.ndarray) -> Frame:
    """Reads one blob (uint8); the arrays are views of it."""
    if blob.size < 8:
        raise FrameError(f"a frame of {blob.size} bytes")
    header_bytes = _U64.unpack_from(blob.data)[0]
    if header_bytes > min(MAX_HEADER_BYTES, blob.size - 8):
        raise FrameError(f"a header of {header_bytes} bytes in a frame of {blob.size}; at most {MAX_HEADER_BYTES} may be")
    if header_bytes % 8 != 0:
        raise FrameError(f"a header of {header_bytes} bytes, which is no multiple of 8")
    try:
        text = blob[8 : 8 + header_bytes].tobytes().decode("utf-8")
    except UnicodeDecodeError:
        raise FrameError("the header is not UTF-8") from None
    header = _parse(text, "the header")
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or metadata.keys() != {"frame"} or not isinstance(metadata["frame"], str):
        raise FrameError("its metadata is not an envelope")
    if len(header) > MAX_ARRAYS:
        raise FrameError(f"{len(header)} arrays in one frame; at most {MAX_ARRAYS} may be")
    data = blob[8 + header_bytes :]
    arrays: dict[str, np.ndarray] = {}
    offset = 0
    for name, entry in header.items():
        arrays[name] = _view(data, name, entry, offset)
        offset += arrays[name].nbytes
    if offset != data.size:
        raise FrameError(f"the last {data.size - offset} bytes belong to no array")
    return Frame(_parse(metadata["frame"], "the envelope"), arrays)


class FrameReader:
    """Makes frames of the bytes of a connection. `limit` may be raised between frames."""

    def __init__(self, limit: int = MAX_FIRST_FRAME_BYTES) -> None:
        self.limit = limit
        self._prefix = b""
        self._blob: np.ndarray | None = None
        self._length = 0
        self._got = 0

    @property
    def between(self) -> bool:
        """Whether no frame has begun: the other side may go now without having cut one off."""
        return self._blob is None and not self._prefix

    def feed(self, data: bytes) -> Iterator[Frame]:
        rest = memoryview(data)
        while len(rest):
            if self._blob is None:
                take = 8 - len(self._prefix)
                self._prefix += bytes(rest[:take])
                rest = rest[take:]
                if len(self._prefix) < 8:
                    return
                self._begin(_U64.unpack(self._prefix)[0])
            take = min(len(rest), self._length - self._got)
            self._make_room(self._got + take)
            self._blob[self._got : self._got + take] = np.frombuffer(rest[:take], np.uint8)
            self._got += take
            rest = rest[take:]
            if self._got == self._length:
                blob = self._blob
                self._blob, self._prefix = None, b""
                yield decode(blob)

    def _begin(self, length: int) -> None:
        if length > self.limit:
            raise FrameError(f"a frame of {length} bytes; at most {self.limit} may be")
        if length < 8:
            raise FrameError(f"a frame of {length} bytes")
        self._length, self._got = length, 0
        self._blob = np.empty(min(length, FIRST_PIECE_BYTES), np.uint8)

    def _make_room(self, needed: int) -> None:
        """Doubles, and never beyond what was announced: at most twice what has arrived is held."""
        if needed > self._blob.size:
            larger = np.empty(min(self._length, max(needed, 2 * self._blob.size)), np.uint8)
            larger[: self._got] = self._blob[: self._got]
            self._blob = larger


def is_size(value: Any) -> bool:
    """A whole number from 0 to 2^53 - 1, as JSON has it: 3.0 is 3 there."""
    if isinstance(value, float):
        return value.is_integer() and 0 <= value <= MAX_SAFE_INTEGER
    return type(value) is int and 0 <= value <= MAX_SAFE_INTEGER


def _view(data: np.ndarray, name: str, entry: Any, offset: int) -> np.ndarray:
    shown = ascii(name[:60])
    if not _ARRAY_NAME.fullmatch(name):
        raise FrameError(f"an array named {shown}")
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        raise FrameError(f"array {shown}: its entry is not dtype, shape and data_offsets")
    dtype = DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if dtype is None:
        raise FrameError(f"array {shown}: its dtype is none of {', '.join(DTYPES)}")
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not isinstance(shape, list) or len(shape) != 1 or not is_size(shape[0]):
        raise FrameError(f"array {shown}: its shape is not one size")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(is_size, offsets)):
        raise FrameError(f"array {shown}: data_offsets is not a pair of byte positions")
    start, end = int(offsets[0]), int(offsets[1])
    if start != offset or end > data.size or end - start != int(shape[0]) * dtype.itemsize:
        raise FrameError(f"array {shown}: bytes {start} to {end} do not hold it, or do not follow the last one")
    if start % dtype.itemsize != 0:
        raise FrameError(f"array {shown}: byte {start} is no place for elements of {dtype.itemsize} bytes")
    return data[start:end].view(dtype)


def _parse(text: str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text, object_pairs_hook=_once, parse_constant=_refuse)
    except (ValueError, RecursionError) as problem:
        raise FrameError(f"{what} is not JSON") from problem
    if not isinstance(value, dict):
        raise FrameError(f"{what} is not a JSON object")
    _check(value, 1, what)
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise FrameError("a name stands twice in one JSON object")
    return made


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _check(value: Any, depth: int, what: str) -> None:
    if isinstance(value, (dict, list)):
        if depth > MAX_DEPTH:
            raise FrameError(f"{what} is nested deeper than {MAX_DEPTH}")
        for inner in value.values() if isinstance(value, dict) else value:
            _check(inner, depth + 1, what)
    elif isinstance(value, (int, float)) and not abs(value) <= 1.7976931348623157e308:
        raise FrameError(f"{what} holds a number that is not finite")


def _dumps(envelope: Mapping[str, Any]) -> str:
    """JSON has no NaN: like JSON.stringify, this writes null for what is not finite."""
    try:
        return json.dumps(envelope, allow_nan=False, separators=(",", ":"))
    except ValueError:
        return json.dumps(_finite(envelope), allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

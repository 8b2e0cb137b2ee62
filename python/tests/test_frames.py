"""What a frame may be, and that nothing else is taken for one."""

from __future__ import annotations

import json
import random
import struct
import tracemalloc
import unittest
from typing import Any

import numpy as np

from stateset_agents_worker import frames
from stateset_agents_worker.frames import FrameError, FrameReader, encode

MiB = 1 << 20


def whole(envelope: dict[str, Any], arrays: dict[str, np.ndarray] | None = None) -> bytes:
    return b"".join(bytes(part) for part in encode(envelope, arrays))


def blob_of(header: Any, data: bytes = b"") -> bytes:
    """A frame with this header, right or wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<QQ", 8 + len(text) + len(data), len(text)) + text + data


def header_of(arrays: dict[str, Any], envelope: str = "{}") -> dict[str, Any]:
    return {"__metadata__": {"frame": envelope}, **arrays}


def entry(dtype: str, length: int, start: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": [length], "data_offsets": [start, end]}


def example() -> bytes:
    arrays = {
        "tokens": np.arange(40, dtype=np.int32),
        "wanted": np.ones(13, np.uint8),
        "logprobs": np.linspace(-3, 0, 9, dtype=np.float32),
        "long": np.array([-1, 1 << 60]),
        "values": np.zeros(0),
    }
    return whole({"id": 7, "op": "forward", "text": "ä\u2028\U0001f600", "deep": [[{"a": None}], 1.5, True]}, arrays)


class Frames(unittest.TestCase):
    def test_reads_what_was_written_in_whatever_pieces_it_comes(self) -> None:
        data = example() + whole({"id": 8, "op": "x"})
        for size in (1, 3, 8, 100, len(data)):
            reader = FrameReader()
            read = [frame for at in range(0, len(data), size) for frame in reader.feed(data[at : at + size])]
            self.assertEqual([frame.envelope["id"] for frame in read], [7, 8])
            self.assertTrue(reader.between)
            arrays = read[0].arrays
            self.assertEqual(read[0].envelope["text"], "ä\u2028\U0001f600")
            np.testing.assert_array_equal(arrays["tokens"], np.arange(40))
            np.testing.assert_array_equal(arrays["long"], [-1, 1 << 60])
            dtypes = {"long": "int64", "values": "float64", "tokens": "int32", "logprobs": "float32", "wanted": "uint8"}
            self.assertEqual({name: str(array.dtype) for name, array in arrays.items()}, dtypes)
            for array in arrays.values():
                self.assertTrue(array.flags.aligned and array.flags.writeable and array.base is not None)

    def test_writes_null_for_what_is_not_finite(self) -> None:
        (frame,) = FrameReader().feed(whole({"id": 1, "norm": float("nan"), "all": [float("inf"), 1.0]}))
        self.assertEqual(frame.envelope, {"id": 1, "norm": None, "all": [None, 1.0]})

    def test_refuses_to_write_what_could_not_be_read(self) -> None:
        one = np.zeros(1, np.float32)
        for arrays, why in (
            ({"a1": one}, "cannot be sent"),
            ({"a": one.astype(np.float16)}, "cannot be sent"),
            ({chr(97 + i // 26) + chr(97 + i % 26): one for i in range(65)}, "65 arrays"),
            ({"a": np.zeros(300, np.float32)}, "at most 1000"),
        ):
            with self.assertRaisesRegex(FrameError, why):
                encode({"id": 1}, arrays, limit=1000)
        with self.assertRaisesRegex(FrameError, "a header of"):
            encode({"id": 1, "text": "x" * MiB})

    def test_refuses_every_broken_rule_and_says_which(self) -> None:
        four = bytes(4)
        cases: list[tuple[bytes, str]] = [
            (struct.pack("<Q", 1 << 40), "at most 65536"),
            (struct.pack("<Q", 7) + bytes(7), "a frame of 7 bytes"),
            (struct.pack("<QQ", 16, 1 << 63) + bytes(8), "a header of"),
            (struct.pack("<QQ", 11, 3) + b"{} ", "no multiple of 8"),
            (blob_of(b"\xff\xfe{}    "), "not UTF-8"),
            (blob_of(b"{"), "not JSON"),
            (blob_of(b"[" * 9000), "not JSON"),
            (blob_of([]), "not a JSON object"),
            (blob_of(b'{"__metadata__":{"frame":"{}"},"__metadata__":{"frame":"{}"}}'), "twice"),
            (blob_of({}), "not an envelope"),
            (blob_of({"__metadata__": {"frame": "{}", "more": ""}}), "not an envelope"),
            (blob_of({"__metadata__": {"frame": 1}}), "not an envelope"),
            (blob_of(header_of({}, "[]")), "the envelope is not a JSON object"),
            (blob_of(header_of({}, '{"a":NaN}')), "the envelope is not JSON"),
            (blob_of(header_of({}, '{"a":1e999}')), "not finite"),
            (blob_of(header_of({}, '{"a":1,"a":2}')), "twice"),
            (blob_of(header_of({}, '{"a":' + "[" * 16 + "]" * 16 + "}")), "deeper than 16"),
            (blob_of(header_of({}), b"left"), "the last 4 bytes"),
            (blob_of(header_of({"a1": entry("F32", 1, 0, 4)}), four), "an array named"),
            (blob_of(header_of({"a": [1]}), four), "its entry is not"),
            (blob_of(header_of({"a": {**entry("F32", 1, 0, 4), "x": 1}}), four), "its entry is not"),
            (blob_of(header_of({"a": entry("F16", 2, 0, 4)}), four), "its dtype"),
            (blob_of(header_of({"a": {**entry("F32", 1, 0, 4), "dtype": []}}), four), "its dtype"),
            (blob_of(header_of({"a": {**entry("F32", 1, 0, 4), "shape": [1, 1]}}), four), "not one size"),
            (blob_of(header_of({"a": {**entry("F32", 1, 0, 4), "shape": [True]}}), four), "not one size"),
            (blob_of(header_of({"a": {**entry("F32", 1, 0, 4), "data_offsets": [0]}}), four), "not a pair"),
            (blob_of(header_of({"a": {**entry("F32", 1, 0, 4), "data_offsets": [-4, 0]}}), four), "not a pair"),
            (blob_of(header_of({"a": entry("F32", 2, 0, 4)}), four), "do not hold it"),
            (blob_of(header_of({"a": entry("F32", 2, 0, 8)}), four), "do not hold it"),
            (blob_of(header_of({"a": entry("U8", 4, 0, 4), "b": entry("U8", 4, 0, 4)}), four), "do not follow"),
            (blob_of(header_of({"a": entry("U8", 1, 0, 1), "b": entry("F32", 1, 1, 5)}), bytes(5)), "is no place"),
            (blob_of(header_of({chr(97 + i // 26) + chr(97 + i % 26): entry("U8", 0, 0, 0) for i in range(65)})), "65 arrays"),
        ]
        for data, why in cases:
            with self.subTest(why), self.assertRaisesRegex(FrameError, why):
                list(FrameReader().feed(data))
        list(FrameReader().feed(blob_of(header_of({}, '{"a":' + "[" * 15 + "]" * 15 + "}"))))

    def test_takes_no_memory_because_a_length_was_announced(self) -> None:
        tracemalloc.start()
        try:
            reader = FrameReader(1 << 30)
            list(reader.feed(struct.pack("<Q", 1 << 30) + bytes(64 << 10)))
            self.assertLess(tracemalloc.get_traced_memory()[1], 2 * MiB)
        finally:
            tracemalloc.stop()

    def test_survives_10000_mutated_frames_within_its_limit(self) -> None:
        draw = random.Random(17)
        bias = {str(token): 0.5 for token in range(40)}
        sample = whole({"id": 2, "op": "sample", "logitBias": bias}, {"tokens": np.arange(500, dtype=np.int32)})
        sources = [example(), whole({"id": 1, "op": "ping"}), sample]
        limit = 64 << 10
        taken = 0
        tracemalloc.start()
        try:
            for _ in range(10_000):
                data = mutated(draw, draw.choice(sources))
                reader = FrameReader(limit)
                try:
                    for frame in reader.feed(data):
                        taken += 1
                        sum(array.nbytes for array in frame.arrays.values())
                except FrameError as problem:
                    self.assertTrue(str(problem).isprintable() and len(str(problem)) < 400)
            # JSON of as many bytes as the limit may become some thirty times as much in Python's objects; nothing may be more.
            self.assertLess(tracemalloc.get_traced_memory()[1], 32 * limit)
        finally:
            tracemalloc.stop()
        # Some mutations hit data alone: had none passed, the mutations would be too coarse to say anything.
        self.assertTrue(100 < taken < 9_900, taken)


def mutated(draw: random.Random, source: bytes) -> bytes:
    data = bytearray(source)
    for _ in range(draw.randint(1, 4)):
        kind = draw.randrange(7)
        at = draw.randrange(len(data)) if data else 0
        if not data:
            break
        if kind == 0:
            data[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            data[at] = draw.randrange(256)
        elif kind == 2:
            del data[at : at + draw.randint(1, 40)]
        elif kind == 3:
            data[at:at] = draw.randbytes(draw.randint(1, 40))
        elif kind == 4:
            data[at:at] = data[at : at + draw.randint(1, 80)]
        elif kind == 5:
            place = draw.choice((0, 8, at))
            lengths = (0, 7, 8, 1 << 16, 1 << 20, 1 << 31, (1 << 53) + 1, (1 << 64) - 1)
            data[place : place + 8] = struct.pack("<Q", draw.choice(lengths))
        else:
            data[at : at + 1] = draw.choice((b"[" * 200, b"9" * 50, b"-", b'"', b"\\u0000", b'{"a":', b"\xff", b"NaN", b"1e400"))
    return bytes(data)


if __name__ == "__main__":
    unittest.main()

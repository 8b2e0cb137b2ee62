"""Reads pieces of foreign connections from stdin (u64 length, bytes; again and again) and writes what this side makes of them:
every frame it takes, its envelope as text, and then whether it refused what followed. For the comparison with the TypeScript."""

from __future__ import annotations

import json
import os
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from stateset_agents_worker.frames import FrameError, FrameReader, encode  # noqa: E402

LIMIT = 64 << 10


def main() -> None:
    data = sys.stdin.buffer.read()
    at = 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        refused = None
        try:
            for frame in FrameReader(LIMIT).feed(data[at + 8 : at + 8 + length]):
                sys.stdout.buffer.writelines(encode({"envelope": json.dumps(frame.envelope)}, frame.arrays))
        except FrameError as problem:
            refused = str(problem)
        sys.stdout.buffer.writelines(encode({"refused": refused}))
        at += 8 + length


if __name__ == "__main__":
    main()

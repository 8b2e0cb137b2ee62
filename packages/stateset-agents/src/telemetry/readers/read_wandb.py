"""Parses a .wandb file with wandb's own protobuf classes and prints its records as JSON. Exit 3: wandb is not installed."""
import importlib
import importlib.util
import json
import struct
import sys
import types
import zlib

spec = importlib.util.find_spec("wandb")
if spec is None:
    print("wandb is not installed", file=sys.stderr)
    sys.exit(3)
# Only the generated messages are needed; importing all of wandb would start its service.
root = spec.submodule_search_locations[0]
for name, path in [("wandb", root), ("wandb.proto", f"{root}/proto")]:
    module = types.ModuleType(name)
    module.__path__ = [path]
    sys.modules[name] = module
Record = importlib.import_module("wandb.proto.wandb_internal_pb2").Record
from google.protobuf.json_format import MessageToDict

data = open(sys.argv[1], "rb").read()
assert struct.unpack("<4sHB", data[:7]) == (b":W&B", 0xBEE1, 0)
at, pending, records = 7, b"", []
while at < len(data):
    left = 32768 - at % 32768
    if left < 7:
        assert data[at:at + left] == bytes(left)
        at += left
        continue
    checksum, length, kind = struct.unpack("<IHB", data[at:at + 7])
    piece = data[at + 7:at + 7 + length]
    assert zlib.crc32(piece, zlib.crc32(bytes([kind]))) == checksum, f"checksum at {at}"
    pending += piece
    at += 7 + length
    if kind in (1, 4):
        record = Record()
        record.ParseFromString(pending)
        pending = b""
        records.append({"type": record.WhichOneof("record_type"), **MessageToDict(record, preserving_proto_field_name=True)})
print(json.dumps(records))

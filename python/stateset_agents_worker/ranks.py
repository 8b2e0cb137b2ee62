"""The processes of one worker. Rank 0 holds the socket and decides; the rest do what it shares, at the same time as it does."""

from __future__ import annotations

import os
import pickle
import struct
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

# What travels in one collective: most messages are smaller, and longer ones take a second collective of their own size.
PACKET_BYTES = 16 << 10
_LENGTH = struct.Struct("<Q")
# Ranks wait for work as long as the client thinks; a lost one is noticed by its closed connection and by torchrun.
FOREVER = timedelta(days=365)


@dataclass
class Ranks:
    """`device` is a torch.device. With one rank there is no process group, and sharing and gathering are free."""

    world: int
    rank: int
    device: Any
    local_rank: int = 0
    control: Any = None

    @staticmethod
    def join() -> Ranks:
        """Takes part in what torchrun set up (WORLD_SIZE, RANK, LOCAL_RANK), or stands alone."""
        import torch

        world = int(os.environ.get("WORLD_SIZE", "1"))
        rank = int(os.environ.get("RANK", "0"))
        local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        if torch.cuda.is_available():
            shown = torch.cuda.device_count()
            if local_rank >= shown:
                raise SystemExit(f"stateset-agents-worker: rank {rank} wants GPU {local_rank}, and this machine shows {shown}.")
            torch.cuda.set_device(local_rank)
            device = torch.device("cuda", local_rank)
        else:
            device = torch.device("cpu")
        if world == 1:
            return Ranks(1, 0, device)
        if int(os.environ.get("LOCAL_WORLD_SIZE", "0")) == world:
            # All on one machine: its name need not resolve, nor a network exist.
            os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
        import torch.distributed as dist

        if device.type == "cuda":
            dist.init_process_group("cpu:gloo,cuda:nccl", device_id=device)
        else:
            dist.init_process_group("gloo")
        return Ranks(world, rank, device, local_rank, dist.new_group(backend="gloo", timeout=FOREVER))

    def share(self, value: Any = None) -> Any:
        """What rank 0 gives, on every rank."""
        if self.world == 1:
            return value
        import torch
        import torch.distributed as dist

        packet = torch.zeros(PACKET_BYTES, dtype=torch.uint8)
        body = pickle.dumps(value, protocol=5) if self.rank == 0 else b""
        if self.rank == 0:
            _fill(packet, body)
        dist.broadcast(packet, 0, group=self.control)
        length = _length(packet)
        if length > PACKET_BYTES - _LENGTH.size:
            whole = torch.frombuffer(bytearray(body or length), dtype=torch.uint8)
            dist.broadcast(whole, 0, group=self.control)
            return value if self.rank == 0 else pickle.loads(whole.numpy().data)
        return value if self.rank == 0 else _unpack(packet, length)

    def gather(self, value: Any) -> list[Any]:
        """What every rank gave, in the order of the ranks, on every rank."""
        if self.world == 1:
            return [value]
        import torch
        import torch.distributed as dist

        body = pickle.dumps(value, protocol=5)
        packet = torch.zeros(PACKET_BYTES, dtype=torch.uint8)
        _fill(packet, body)
        packets = [torch.empty_like(packet) for _ in range(self.world)]
        dist.all_gather(packets, packet, group=self.control)
        lengths = [_length(one) for one in packets]
        longest = max(lengths)
        if longest <= PACKET_BYTES - _LENGTH.size:
            return [_unpack(one, length) for one, length in zip(packets, lengths)]
        whole = torch.zeros(longest, dtype=torch.uint8)
        whole[: len(body)] = torch.frombuffer(bytearray(body), dtype=torch.uint8)
        wholes = [torch.empty_like(whole) for _ in range(self.world)]
        dist.all_gather(wholes, whole, group=self.control)
        return [pickle.loads(one.numpy()[:length].data) for one, length in zip(wholes, lengths)]

    def leave(self) -> None:
        """The last thing before lifeline.end(): threads of gloo that are still there when an interpreter is taken down have aborted it."""
        if self.world > 1:
            import torch.distributed as dist

            dist.destroy_process_group()


def _fill(packet: Any, body: bytes) -> None:
    """The length, and the body where it fits beside it."""
    text = packet.numpy()
    text[: _LENGTH.size].data[:] = _LENGTH.pack(len(body))
    if len(body) <= PACKET_BYTES - _LENGTH.size:
        text[_LENGTH.size : _LENGTH.size + len(body)].data[:] = body


def _length(packet: Any) -> int:
    return int(_LENGTH.unpack_from(packet.numpy().data)[0])


def _unpack(packet: Any, length: int) -> Any:
    return pickle.loads(packet.numpy()[_LENGTH.size : _LENGTH.size + length].data)

"""One decoding step, from the last tokens to the next ones, with everything it needs on the device. On CPU it is run as it is; on CUDA
it is captured once for each size, and replayed."""

from __future__ import annotations

import torch

from . import attention
from .decode_attention import Decode
from .decoder import Decoder
from .draw import Variant, draw
from .kv_cache import KvCache
from .slots import Slots


class Steps:
    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder

    def run(self, cache: KvCache, slots: Slots, rows: int, length: int, variant: Variant) -> None:
        """One token for each of the first `rows` slots whose reply goes on; none of them has more than `length` keys."""
        step(self.decoder, cache, slots, rows, length, variant)

    def drop(self) -> None:
        pass


def step(decoder: Decoder, cache: KvCache, slots: Slots, rows: int, length: int, variant: Variant) -> None:
    alive = slots.alive[:rows].bool()
    position = slots.position[:rows]
    write = torch.where(alive, position, cache.spare)
    reach = torch.where(alive, position + 1, 1)
    with attention.use(Decode(cache, write, reach, length)):
        hidden = decoder.hidden(slots.token[:rows, None], position[:, None])
    logits = decoder.logits(hidden[:, 0])
    slots.advance(draw(logits, slots.shape(rows, variant), variant))

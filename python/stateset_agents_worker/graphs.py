"""One decoding step, from the last tokens to the next ones, with everything it needs on the device. On CPU it is run as it is; on CUDA
it is captured once for each size, with compiled blocks where they can be compiled, and replayed."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from . import attention
from .compiled_blocks import CompiledBlocks
from .decode_attention import Decode
from .decoder import Decoder
from .draw import Variant
from .errors import last_line
from .kv_cache import KvCache
from .side_by_side import SideBySide
from .slots import Slots, Turn, take_turn

#: Runs before a capture: the first may compile, the second finds everything in its place.
WARM_UPS = 2
#: Steps before blocks are compiled for them: that takes as long as some thousand steps do, and a run of a few minutes would not get it
#: back.
PAYS_AFTER = 3000


#: Rows, length, and what is worked out.
Key = tuple[int, int, Variant]


@dataclass
class Captured:
    graph: torch.cuda.CUDAGraph
    compiled: bool


class Steps:
    def __init__(self, decoder: Decoder) -> None:
        self.decoder = decoder
        self.decode = Decode()
        self.graphed = decoder.device.type == "cuda"
        self.compiled = CompiledBlocks(decoder.blocks)
        # Sharded weights lie where FSDP puts them.
        self.side_by_side = SideBySide(decoder.blocks if self.graphed and not decoder.sharded else [])
        self._compiled_turn: Turn | None = None
        self._parameters: list[Tensor] | None = None if decoder.sharded else list(decoder.model.parameters())
        self._graphs: dict[Key, Captured] = {}
        #: For which batches blocks were compiled: a single row is a program of its own, all others are one. And how many steps they had.
        self._programs: set[bool] = set()
        self._taken: Counter[bool] = Counter()
        self._addresses: list[int] = []
        self._pool: tuple[int, int] | None = None
        self._beside: torch.cuda.Stream | None = None
        self._probed = False

    def run(self, cache: KvCache, slots: Slots, rows: int, length: int, variant: Variant) -> None:
        """One token for each of the first `rows` slots whose reply goes on; none of them has more than `length` keys."""
        if not self.graphed:
            self._step(cache, slots, rows, length, variant)
            return
        if not self._probed:
            self._probed = True
            self.decode.kernel = find_kernel(self.decoder, cache)
        # A kernel that reads what there is needs no program for each length.
        key = (rows, cache.length if self.decode.kernel else length, variant)
        self._check_addresses()
        captured = self._graphs.get(key)
        if captured is None or (not captured.compiled and self._pays(key)):
            captured = self._capture(cache, slots, key)
        if captured is None:
            self._step(cache, slots, *key)
        else:
            self._taken[rows == 1] += 1
            captured.graph.replay()

    def _pays(self, key: Key) -> bool:
        """Whether to compile for it."""
        alone = key[0] == 1
        return self.compiled.on and (alone in self._programs or self._taken[alone] >= PAYS_AFTER)

    def drop(self) -> None:
        """The cache lies elsewhere, or something failed."""
        if self._graphs:
            torch.cuda.synchronize()
            self._graphs.clear()
            # Memory that no graph holds any more is gone, and so is its name.
            self._pool = None

    def _check_addresses(self) -> None:
        """A graph reads weights where they lay when it was captured."""
        # Parameters that were sharded in between are other objects.
        parameters = self.decoder.model.parameters() if self._parameters is None else self._parameters
        addresses = [parameter.data_ptr() for parameter in parameters]
        if addresses != self._addresses:
            self.drop()
            self._addresses = addresses

    def _turn(self, variant: Variant) -> Turn:
        """Compiled where a step is captured with compiled blocks and nothing shapes the draws."""
        if not self.compiled.in_use or variant != Variant():
            return take_turn
        self._compiled_turn = self._compiled_turn or torch.compile(take_turn)
        return self._compiled_turn

    def _step(self, cache: KvCache, slots: Slots, rows: int, length: int, variant: Variant) -> None:
        alive = slots.alive[:rows].bool()
        position = slots.position[:rows]
        write = torch.where(alive, position, cache.spare)
        reach = torch.where(alive, position + 1, 1)
        self.decode.aim(cache, write, reach, length)
        with attention.use(self.decode):
            hidden = self.decoder.hidden(slots.token[:rows, None], position[:, None])
        slots.draw(self.decoder.logits(hidden[:, 0]), variant, self._turn(variant))

    def _capture(self, cache: KvCache, slots: Slots, key: Key) -> Captured | None:
        def step() -> None:
            self._step(cache, slots, *key)

        # Nothing may happen to the replies meanwhile.
        alive = slots.alive.clone()
        slots.alive.zero_()
        try:
            with self.side_by_side.use():
                made = self._captured_compiled(step, key) if self._pays(key) else None
                self._graphs[key] = made or Captured(self._captured(step), compiled=False)
            return self._graphs[key]
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - a model that looks at its own numbers cannot be captured.
            self.graphed = False
            say(f"The model cannot be captured in a CUDA graph and is sampled without, slower: {last_line(error)}")
            return None
        finally:
            slots.alive.copy_(alive)

    def _captured_compiled(self, step: Callable[[], None], key: Key) -> Captured | None:
        alone, begun = key[0] == 1, time.monotonic()
        try:
            with self.compiled.use():
                graph = self._captured(step)
            if alone not in self._programs:
                say(f"The blocks are compiled for sampling from now on, which took {time.monotonic() - begun:.0f} s.")
            self._programs.add(alone)
            return Captured(graph, compiled=True)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - compilers fail in many ways, and none of them is needed.
            self.compiled.on = False
            say(f"The blocks cannot be compiled for sampling and run as they are, slower: {last_line(error)}")
            return None

    def _captured(self, step: Callable[[], None]) -> torch.cuda.CUDAGraph:
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        self._beside = self._beside or torch.cuda.Stream()
        here, beside = torch.cuda.current_stream(), self._beside
        beside.wait_stream(here)
        with torch.cuda.stream(beside):
            for _ in range(WARM_UPS):
                step()
        here.wait_stream(beside)
        graph = torch.cuda.CUDAGraph()
        # Other threads of the worker may not be kept from CUDA by it.
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            step()
        return graph


def find_kernel(decoder: Decoder, cache: KvCache) -> Callable[..., Tensor] | None:
    """The kernel, if there is Triton and it gives here what plain attention gives."""
    try:
        from .decode_kernel import attend

        shape = cache.shape
        text = decoder.config.get_text_config()
        generator = torch.Generator(shape.device).manual_seed(0)

        def numbers(*size: int) -> Tensor:
            return torch.randn(size, generator=generator, device=shape.device, dtype=shape.dtype)

        rows, length = 3, 512
        query = numbers(rows, text.num_attention_heads, shape.head_dim)
        key, value = numbers(rows, shape.heads, shape.head_dim), numbers(rows, shape.heads, shape.head_dim)
        keys, values = numbers(rows, shape.heads, length, shape.head_dim), numbers(rows, shape.heads, length, shape.head_dim)
        reach = torch.tensor([1, 100, 500], device=shape.device)
        small = KvCacheLike(keys.clone(), values.clone())
        plain = Decode()
        plain.aim(small, reach - 1, reach, length)  # type: ignore[arg-type]
        module = nn.Module()
        module.layer_idx = 0  # type: ignore[assignment]
        for window in (None, 40):
            wanted = plain(module, query[:, :, None], key[:, :, None], value[:, :, None], 0.1, window, 0.0)
            got = attend(query, key, value, keys, values, reach - 1, reach, 0.1, window)
            if not torch.allclose(got, wanted[:, 0], atol=3e-2, rtol=3e-2):
                raise RuntimeError("its numbers are not those of plain attention")
        return attend
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - without it everything works, slower.
        say(f"The kernel of decode_kernel.py cannot be used here; sampling goes on without: {last_line(error)}")
        return None


class KvCacheLike:
    """One layer of a cache."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys = lambda _: keys
        self.values = lambda _: values


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)

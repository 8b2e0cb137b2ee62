"""The engine of one rank: what `open` makes, and the operations on it. Every rank calls the same with the same arguments."""

from __future__ import annotations

import os
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from .digest import digest
from .errors import WorkerError
from .lora import join_adapters
from .masters import Masters
from .model import Model, load_model, read_adapter
from .operations import OPERATIONS, Result
from .optimiser import Optimiser
from .passes import Passes
from .probe import probe
from .ranks import Ranks
from .references import References
from .scorer import Blocks, Scorer, Shards
from .tree import TokenTree, read_tree
from .vectors import Vectors

#: Replies that are sampled together where nobody says how many.
SLOTS = 64


class Engine:
    def __init__(self, options: dict[str, Any], model: Model, ranks: Ranks) -> None:
        self.options, self.model, self.ranks = options, model, ranks
        #: Changes of the weights since open.
        self.count = 0
        named = model.causal.named_parameters()
        # Of the model under an adapter, as the embedded engine counts them; those in 4 bits are as many as they were.
        adapted = model.causal.num_parameters(only_trainable=True) if model.peft is not None else 0
        self._parameters = model.causal.num_parameters() - adapted
        self.digest = digest((model.name_in_files(name), p) for name, p in named)
        if model.peft is not None and model.compute is not torch.float32:
            # Of a base that was rounded, which is not to be compared with one that was not.
            self.digest += f"-{options.get('quantise') or 'bf16'}"
        self.scorer = Scorer(model)
        if ranks.world == 1:
            self.masters = Masters(model.trained(), model.compute, ranks)
        if ranks.device.type == "cuda":
            join_adapters(model)
        self.blocks = Blocks(model, compiled=ranks.device.type == "cuda")
        self.shards = Shards(self.scorer, model, ranks)
        if ranks.world > 1:
            # Sharding makes the parameters others.
            self.masters = Masters(model.trained(), model.compute, ranks)
        self.optimiser = Optimiser(self.masters)
        self.passes = Passes(model, self.masters, self.scorer, self.blocks, self.shards, ranks, int(options.get("seed") or 0))
        self.vectors = Vectors(self.masters, self.optimiser)
        self.references = References(self.masters, self.passes)
        self._read_value_head()
        self.sampler = self._sampler()

    @staticmethod
    def open(options: dict[str, Any], ranks: Ranks) -> Engine:
        model = load_model(options, ranks.device, ranks.world)
        probe(model)
        return Engine(options, model, ranks)

    def _sampler(self) -> Any:
        from .sampler import Sampler

        return Sampler(
            self.model.causal,
            slots=int(self.options.get("slots") or SLOTS),
            context_length=self.model.context,
            dtype=self.model.compute,
            burst=self.shards if self.ranks.world > 1 else None,
            count=lambda: self.count,
        )

    def _read_value_head(self) -> None:
        file = os.path.join(self.options.get("adapter") or self.options["model"], "value_head.safetensors")
        if os.path.isfile(file):
            self.masters.add_value_head(self.model.hidden)
            self.masters.write(load_file(file))

    def info(self) -> dict[str, Any]:
        masters, text = self.masters, self.model.text
        return {
            "architecture": self.model.config.model_type,
            "parameters": self._parameters,
            "trainableParameters": self.vectors.length,
            "hiddenSize": self.model.hidden,
            "layers": len(self.model.blocks),
            "vocabSize": self.model.vocab,
            "contextLength": self.model.context,
            "digest": self.digest,
            "valueHead": masters.value is not None,
            "count": self.count,
            "slots": int(self.options.get("slots") or SLOTS),
            "bytes": self._bytes(text),
            "capabilities": {
                # Two programs for sampling and scoring, and sums whose order depends on the batch: the loop corrects for it.
                "exact": False,
                "seeded": False,
                "entropy": True,
                "values": True,
                "hidden": True,
                "vectors": True,
                "loraPlus": True,
                "constrain": False,
                "promptLogprobs": False,
                "embed": False,
            },
        }

    def _bytes(self, text: Any) -> dict[str, int]:
        """`perToken`: what a pass keeps of a token until backward; `perTokenRecompute` the same where blocks are computed again;
        `cache`: what keys and values take at most."""
        size = self.model.compute.itemsize
        hidden, inter = self.model.hidden, getattr(text, "intermediate_size", None) or 4 * self.model.hidden
        heads = text.num_attention_heads
        head_dim = self.model.head_dim
        kv = 2 * (getattr(text, "num_key_value_heads", None) or heads) * head_dim
        layers = len(self.model.blocks)
        in_block = size * (6 * hidden + 3 * heads * head_dim + 2 * kv + 4 * inter)
        cuda = self.ranks.device.type == "cuda"
        free, total = torch.cuda.mem_get_info(self.ranks.device) if cuda else _memory()
        return {
            # With the masters, where they lie apart: they are there already.
            "weights": sum(p.numel() * p.element_size() for p in self.model.causal.parameters()) + self.masters.bytes_apart,
            # Gradients and both moments.
            "trainable": self.vectors.length * 12,
            "perToken": layers * in_block,
            "perTokenRecompute": layers * size * hidden + in_block,
            "cache": self.sampler.most_cache_bytes,
            "free": free,
            "total": total,
        }

    def call(self, op: str, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
        """Every operation on the compute thread but `sample`, `cancel`, `open` and `close`."""
        run = OPERATIONS.get(op)
        if run is None:
            raise WorkerError("INVALID_OPTION", f'There is no operation "{op}".')
        return run(self, options, arrays)

    def changed(self) -> int:
        """The weights are others now."""
        self.count += 1
        return self.count

    def tree(self, arrays: dict[str, Tensor]) -> TokenTree:
        return read_tree(arrays, self.model.vocab, self.model.context)

    def opened(self) -> dict[str, Tensor]:
        """What is trained, as the files have it."""
        if self.model.peft is not None:
            return read_adapter(self.options["adapter"], self.masters.names[: self.masters.policy])
        again = load_model({**self.options, "dtype": "f32"}, torch.device("cpu"), 1)
        return {name: p.detach() for name, p in again.trained()}


def _memory() -> tuple[int, int]:
    with open("/proc/meminfo", encoding="ascii") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["MemAvailable"].split()[0]) << 10, int(lines["MemTotal"].split()[0]) << 10

"""What sampling needs of a transformers model: hidden states of some tokens, and logits of some hidden states."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from .scores import logits_divisor, multiply


class Burst(Protocol):
    """Whoever holds sharded weights makes them whole before many steps of sampling, and shards them again after. Both are called
    often and do nothing where nothing is to be done; begin_burst() is called on every rank at the same turn."""

    def begin_burst(self) -> None: ...

    def end_burst(self) -> None: ...


class Decoder:
    """`model`: what AutoModelForCausalLM gives, or peft around it. `dtype`: what is computed in, if not that of the parameters.
    `sharded`: the parameters are whole only between begin_burst() and end_burst()."""

    def __init__(self, model: nn.Module, dtype: torch.dtype | None = None, sharded: bool = False) -> None:
        self.model: Any = model.get_base_model() if hasattr(model, "get_base_model") else model
        self.trunk: nn.Module = self.model.base_model
        self.head: nn.Module = self.model.get_output_embeddings()
        self.config = self.model.config
        parameter = self.trunk.get_input_embeddings().weight  # type: ignore[operator]
        self.device: torch.device = parameter.device
        self.dtype: torch.dtype = dtype or parameter.dtype
        self.vocabulary: int = self.head.weight.shape[0]
        self._divisor = logits_divisor(self.config)
        self.sharded = sharded
        self.blocks = _blocks(self.trunk, self.config.get_text_config().num_hidden_layers)

    def hidden(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """[rows, count] each → [rows, count, hidden], after the final norm. Attention is what attention.use() was given."""
        if self.trunk.training:
            self.model.eval()
        with unhooked(self.blocks) if self.sharded else nullcontext():
            return self.trunk(input_ids=tokens, position_ids=positions, use_cache=False).last_hidden_state

    def logits(self, hidden: Tensor) -> Tensor:
        """[rows, hidden] → [rows, vocabulary] f32."""
        logits = multiply(hidden, self.head.weight.t())
        bias = getattr(self.head, "bias", None)
        logits = logits if bias is None else logits + bias
        return logits if self._divisor == 1 else logits / self._divisor


def _blocks(trunk: nn.Module, layers: int) -> list[nn.Module]:
    """The transformer's blocks, first to last."""
    lists = [module for module in trunk.modules() if isinstance(module, nn.ModuleList) and len(module) == layers]
    return list(lists[0]) if lists else []


@contextmanager
def unhooked(blocks: list[nn.Module]) -> Iterator[None]:
    """FSDP's hooks would gather what is whole already, take the first block for the root of everything, and cannot be captured."""
    kept = [(block, block._forward_pre_hooks, block._forward_hooks) for block in blocks]
    try:
        for block in blocks:
            block._forward_pre_hooks, block._forward_hooks = OrderedDict(), OrderedDict()
        yield
    finally:
        for block, before, after in kept:
            block._forward_pre_hooks, block._forward_hooks = before, after

"""Where transformers' own modules get their attention from: whoever runs the model says how, for as long as it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface

from .errors import WorkerError

#: The name of our attention in transformers' interface. It has no mask of its own there, so that none is built.
NAME = "stateset"

#: fn(module, query [B, Hq, T, D], key [B, Hk, T, D], value, scaling, sliding_window, dropout) -> [B, T, Hq, D]
Attend = Callable[[nn.Module, Tensor, Tensor, Tensor, float, "int | None", float], Tensor]

#: A plain variable, since the recomputation of a checkpoint runs in a thread of autograd's, which inherits no context.
current: Attend | None = None


@contextmanager
def use(fn: Attend) -> Iterator[None]:
    global current
    before = current
    current = fn
    try:
        yield
    finally:
        current = before


def register() -> None:
    """Models loaded with `attn_implementation=NAME` call what use() was given."""
    AttentionInterface.register(NAME, _attend)


#: Changes of attention that some models ask for and that we do not compute. Without them the numbers would be wrong, silently.
_REFUSED = {"softcap": "capped attention scores", "s_aux": "attention sinks", "position_bias": "a bias by position"}


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    for name, what in _REFUSED.items():
        if others.get(name) is not None:
            raise WorkerError("MODEL_UNSUPPORTED", f"The model has {what}, which the worker does not compute.")
    if current is None:
        raise RuntimeError("The model was called outside attention.use().")
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    return current(module, query, key, value, scaling, sliding_window, dropout), None


def plain(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scaling: float, dropout: float = 0.0
) -> Tensor:
    """Scaled dot-product attention under a mask of booleans (true: attend), or causal without one. [B, T, Hq, D]"""
    return torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=mask is None,
        dropout_p=dropout,
        scale=scaling,
        enable_gqa=query.shape[1] != key.shape[1],
    ).transpose(1, 2)

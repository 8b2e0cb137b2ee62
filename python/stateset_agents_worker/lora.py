"""Adapters in long passes: base and adapter as one product, since on a GPU the adapter's own cost is reading and writing wide rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from . import attention
from .model import Model
from .tree_attention import TreeAttention

#: Rows from which on it pays to put base and adapter side by side, which copies the weights.
FEWEST_ROWS = 1024


def join_adapters(model: Model) -> None:
    """For plain linear layers without dropout; the rest stays with PEFT, and so does sampling."""
    if model.peft is None:
        return
    from peft.tuners.lora.layer import Linear

    for module in model.causal.modules():
        if type(module) is Linear and type(module.base_layer) is nn.Linear and isinstance(module.lora_dropout["default"], nn.Identity):
            _join(module)


def _join(module: Any) -> None:
    plain, base, scale = module.forward, module.base_layer, float(module.scaling["default"])
    a, b = module.lora_A["default"], module.lora_B["default"]

    def forward(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if type(attention.current) is not TreeAttention or x.shape[-2] < FEWEST_ROWS or x.dtype != a.weight.dtype:
            return plain(x, *args, **kwargs)
        flat = _Joined.apply(x.reshape(-1, x.shape[-1]), base.weight, base.bias, a.weight, b.weight, scale)
        return flat.view(*x.shape[:-1], flat.shape[-1])

    module.forward = forward


class _Joined(torch.autograd.Function):
    """x·Wᵀ + s·(x·Aᵀ)·Bᵀ = [x, x·Aᵀ]·[W, s·B]ᵀ. The derivative of the base is not computed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, a: Tensor, b: Tensor, scale: float) -> Tensor:
        low = x @ a.t()
        ctx.save_for_backward(x, low, weight, a, b)
        ctx.scale = scale
        return nn.functional.linear(torch.cat([x, low], 1), torch.cat([weight, b * scale], 1), bias)

    @staticmethod
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        x, low, weight, a, b = ctx.saved_tensors
        both = slopes @ torch.cat([weight, b * ctx.scale], 1)
        of_x, of_low = both[:, : x.shape[1]], both[:, x.shape[1] :]
        return of_x + of_low @ a, None, None, of_low.t() @ x, (slopes.t() @ low) * ctx.scale, None

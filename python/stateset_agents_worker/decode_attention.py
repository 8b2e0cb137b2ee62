"""Attention of a decoding step: the new key and value of each row go to their place in the cache, and its query looks at what lies
there. To be given to attention.use()."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from .kv_cache import KvCache


class Decode:
    """One token of each of the first `rows` slots. One object for all steps, so that compiled blocks find what they know."""

    def __init__(self) -> None:
        #: The kernel of decode_kernel.py, where it can be used.
        self.kernel: Callable[..., Tensor] | None = None

    def aim(self, cache: KvCache, write: Tensor, reach: Tensor, length: int) -> None:
        """`write` [rows]: where the key of the new token goes; `reach` [rows]: how many keys it sees. `length`: no row reaches
        further, so that nothing beyond it need be read."""
        self.cache = cache
        self.rows = write.shape[0]
        self.write = write
        self.reach = reach
        self.length = length
        self.each = torch.arange(self.rows, device=write.device)
        self.masks: dict[int | None, Tensor] = {}

    @torch.compiler.disable
    def __call__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        scaling: float,
        window: int | None,
        dropout: float,
    ) -> Tensor:
        layer: int = module.layer_idx  # type: ignore[assignment]
        keys, values = self.cache.keys(layer), self.cache.values(layer)
        query, key, value = query[:, :, 0], key[:, :, 0], value[:, :, 0]
        if self.kernel is None:
            seen = self._attend(query, key, value, keys, values, scaling, window)
        else:
            seen = self.kernel(query, key, value, keys, values, self.write, self.reach, scaling, window)
        return seen.reshape(self.rows, 1, query.shape[1], -1)

    def _attend(
        self, query: Tensor, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, scaling: float, window: int | None
    ) -> Tensor:
        keys[self.each, :, self.write] = key
        values[self.each, :, self.write] = value
        heads = keys.shape[1]
        # The query heads that share a key head stand below each other as queries, so that no key is repeated.
        grouped = query.reshape(self.rows, heads, -1, query.shape[2])
        return scaled_dot_product_attention(
            grouped,
            keys[: self.rows, :, : self.length],
            values[: self.rows, :, : self.length],
            attn_mask=self._mask(window, query.dtype).expand(-1, heads, grouped.shape[2], -1),
            scale=scaling,
        )

    def _mask(self, window: int | None, dtype: torch.dtype) -> Tensor:
        """What is added to the scores, [rows, 1, 1, length]; the same in every layer of one window."""
        if window not in self.masks:
            at = torch.arange(self.length, device=self.reach.device)[None]
            hidden = at >= self.reach[:, None]
            if window is not None:
                hidden |= at < (self.reach - window)[:, None]
            mask = torch.zeros(self.rows, self.length, dtype=dtype, device=self.reach.device)
            self.masks[window] = mask.masked_fill(hidden, -math.inf)[:, None, None]
        return self.masks[window]

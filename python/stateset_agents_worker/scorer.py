"""The root module: from tokens to log-probs, so that embedding and head are whole where they are used, also when sharded."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from . import attention
from .errors import last_line
from .model import Model
from .ranks import Ranks
from .scores import Wanted, logits_divisor, score
from .tree_attention import TreeAttention


class Scorer(nn.Module):
    """The model's parts under one root. It owns no parameters of its own."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.causal = model.causal
        self._divisor = logits_divisor(model.config)

    def forward(self, tokens: Tensor, positions: Tensor, wanted: Wanted) -> tuple[Tensor, Tensor, Tensor]:
        """Hidden states after the final norm [1, rows, size], log-probs and entropies of what is wanted."""
        # As it comes: FSDP hangs its hooks on what a root returns, and a view could lose them.
        hidden = self.causal.base_model(input_ids=tokens[None], position_ids=positions[None], use_cache=False).last_hidden_state
        head = self.causal.get_output_embeddings()
        # A temperature divides logits, too; in f32, and its derivatives are there.
        wanted = replace(wanted, temperature=wanted.temperature * self._divisor)
        logprobs, entropy = score(hidden[0], head.weight, getattr(head, "bias", None), wanted)
        return hidden, logprobs, entropy


class Blocks:
    """How the transformer's blocks run in passes over trees: whether they are computed again in backward, and compiled."""

    def __init__(self, model: Model, compiled: bool) -> None:
        self.recompute = False
        self.compiled = compiled
        if compiled:
            # A program for each size of pass, with and without gradients; beyond the limit torch would silently stop compiling.
            torch._dynamo.config.recompile_limit = 128
        for block in model.blocks:
            self._wrap(block)

    def _wrap(self, block: nn.Module) -> None:
        plain = block.forward
        fast = torch.compile(plain, dynamic=False) if self.compiled else plain

        def run(*args: Any, **kwargs: Any) -> Any:
            # Sampling has shapes and graphs of its own.
            if not self.compiled or type(attention.current) is not TreeAttention or not attention.current.compiled:
                return plain(*args, **kwargs)
            try:
                return fast(*args, **kwargs)
            except (torch._dynamo.exc.TorchDynamoException, ImportError) as error:
                self.compiled = False
                print(f"The blocks cannot be compiled and run as they are, slower: {last_line(error)}", file=sys.stderr, flush=True)
                return plain(*args, **kwargs)

        def forward(*args: Any, **kwargs: Any) -> Any:
            if self.recompute and torch.is_grad_enabled() and type(attention.current) is TreeAttention:
                return checkpoint(run, *args, use_reentrant=False, **kwargs)
            return run(*args, **kwargs)

        block.forward = forward  # type: ignore[method-assign]


class Shards:
    """Parameters over several ranks (FSDP2). With one rank it does nothing."""

    def __init__(self, scorer: Scorer, model: Model, ranks: Ranks) -> None:
        self._modules: list[Any] = []
        if ranks.world == 1:
            return
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        mesh = init_device_mesh(ranks.device.type, (ranks.world,))
        lower = None if model.compute == torch.float32 else model.compute
        # Positions are whole numbers, and everything else is in the right precision already.
        policy = MixedPrecisionPolicy(param_dtype=lower, reduce_dtype=torch.float32, cast_forward_inputs=False)
        for block in model.blocks:
            self._modules.append(fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=True))
        # The root, too: kept whole after a pass without backward, it would miss the next step.
        self._modules.append(fully_shard(scorer, mesh=mesh, mp_policy=policy, reshard_after_forward=True))
        self._whole = False

    def begin_burst(self) -> None:
        """Makes the weights whole for many steps of sampling. On every rank at the same turn."""
        if not self._modules or self._whole:
            return
        self._whole = True
        for module in self._modules:
            module.set_reshard_after_forward(False, recurse=False)
            module.unshard()

    def end_burst(self) -> None:
        if not self._modules or not self._whole:
            return
        self._whole = False
        for module in self._modules:
            module.set_reshard_after_forward(True, recurse=False)
            module.reshard()

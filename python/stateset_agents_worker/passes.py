"""Passes over trees: forward, and backward from derivatives of what it returned. Several may be alive, and end in any order."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from . import attention
from .errors import WorkerError
from .masters import Masters
from .model import Model
from .ranks import Ranks
from .scorer import Blocks, Scorer, Shards
from .scores import Wanted
from .transfer import to_device
from .tree import Layout, TokenTree, deal, idle_layout, lay_out
from .tree_attention import NARROWEST, TreeAttention

#: Programs for a new size of pass take 10 to 20 s to compile, as long as hundreds of small passes take without. So a size is compiled
#: once it was used so often; larger ones at once, since a mask of all pairs of tokens would not do for them.
PAYS_AFTER = 256
DENSE_UP_TO = 4096

#: The derivatives of a pass's logits are kept from forward to backward while this share of the device's memory stays free.
KEEP_SHARE = 0.5


@dataclass(frozen=True)
class Wants:
    grad: bool = True
    entropy: bool = False
    values: bool = False
    hidden: bool = False
    temperature: float = 1.0
    recompute: bool = False


@dataclass
class Pass:
    """What backward needs. Its tensors hold the graph; nothing else does, so that to drop it is to free it."""

    layout: Layout
    #: False on a rank that had nothing to do.
    works: bool
    attention: TreeAttention
    #: [1, rows, size]
    hidden: Tensor
    logprobs: Tensor
    entropy: Tensor
    wants: Wants
    #: Whether the adapter drops out: so it must when it is recomputed.
    drops: bool
    #: Of the weights it was made with.
    count: int
    tokens: int


class Passes:
    def __init__(self, model: Model, masters: Masters, scorer: Scorer, blocks: Blocks, shards: Shards, ranks: Ranks, seed: int) -> None:
        self.model, self.masters, self.scorer, self.blocks, self.shards, self.ranks = model, masters, scorer, blocks, shards, ranks
        self._seed = seed
        self._alive: dict[int, Pass] = {}
        self._last = 0
        #: How often passes of each size were made, with and without gradients.
        self._uses: Counter[tuple[int, bool]] = Counter()
        #: How many passes drew a mask of dropout.
        self.dropout_passes = 0

    def __len__(self) -> int:
        return len(self._alive)

    def forward(self, tree: TokenTree, wants: Wants, count: int) -> tuple[int | None, dict[str, Tensor]]:
        if wants.values and self.masters.value is None:
            raise WorkerError("INVALID_OPTION", "forward() was asked for values, but there is no value head.", "Call addValueHead() first.")
        made = self._run(tree, wants, count)
        arrays = self._collect(made)
        if not wants.grad:
            return None, arrays
        self._last += 1
        self._alive[self._last] = made
        return self._last, arrays

    def _run(self, tree: TokenTree, wants: Wants, count: int) -> Pass:
        self.shards.end_burst()
        nodes = deal(tree, self.ranks.world)[self.ranks.rank]
        device = self.ranks.device
        # What is compiled has few sizes; the rest has what it needs.
        pad = device.type == "cuda"
        layout = lay_out(tree, nodes, pad) if nodes else idle_layout(pad)
        pays = self.pays(layout.size, wants.grad) or not pad
        flex = pad and pays and self.model.head_dim >= NARROWEST
        attend = TreeAttention(layout, device, flex, self.model.windows, pays)
        ints = to_device(np.concatenate([layout.tokens, layout.depth, layout.foretold_by, layout.tokens[layout.wanted]]), device)
        tokens, depth, rows, targets = ints.split([layout.size, layout.size, len(layout.wanted), len(layout.wanted)])
        wanted = Wanted(rows, targets, wants.temperature, wants.entropy, wants.grad and self._room(len(rows)))
        drops = wants.grad and self._drops()
        if drops:
            torch.manual_seed((self._seed * 1_000_003 + self.dropout_passes * 4_099 + self.ranks.rank) & 0x7FFF_FFFF_FFFF_FFFF)
            self.dropout_passes += 1
        self.blocks.recompute = wants.recompute and wants.grad
        try:
            self.model.set_dropout(drops)
            with attention.use(attend), torch.set_grad_enabled(wants.grad):
                hidden, logprobs, entropy = self.scorer(tokens, depth, wanted)
        finally:
            self.model.set_dropout(False)
        return Pass(layout, bool(nodes), attend, hidden, logprobs, entropy, wants, drops, count, len(tree.tokens))

    def pays(self, size: int, grad: bool) -> bool:
        """Whether to compile for passes of this size, of which this is one more."""
        self._uses[size, grad] += 1
        return size > DENSE_UP_TO or self._uses[size, grad] > PAYS_AFTER

    def _drops(self) -> bool:
        return self.model.peft is not None and self.model.peft.peft_config["default"].lora_dropout > 0

    def _room(self, rows: int) -> bool:
        """Whether to keep the derivatives of the logits rather than compute the logits again."""
        device = self.ranks.device
        needed = rows * self.model.vocab * self.model.compute.itemsize
        if device.type != "cuda":
            return needed <= 1 << 28
        total = torch.cuda.get_device_properties(device).total_memory
        return torch.cuda.memory_allocated(device) + needed < KEEP_SHARE * total

    def _collect(self, made: Pass) -> dict[str, Tensor]:
        """In the caller's order, on the CPU; with several ranks, complete on rank 0."""
        layout, wants = made.layout, made.wants
        found = {"logprobs": made.logprobs.detach()}
        if wants.entropy:
            found["entropy"] = made.entropy.detach()
        if wants.values:
            weight, bias = self.masters.value or (None, None)
            found["values"] = (made.hidden.detach()[0, : layout.count].float() @ weight.detach().t())[:, 0] + bias.detach()
        if wants.hidden:
            found["hidden"] = made.hidden.detach()[0, : layout.count].float()
        # One wait for the device, not one for each.
        found = {name: tensor.to("cpu", non_blocking=True) for name, tensor in found.items()}
        if self.ranks.device.type == "cuda":
            torch.cuda.current_stream().synchronize()
        arrays = {}
        every, wanted = torch.from_numpy(layout.source), torch.from_numpy(layout.source[layout.wanted])
        for name, tensor in found.items():
            out = torch.zeros(made.tokens, *tensor.shape[1:])
            if made.works:
                out[every if name in ("values", "hidden") else wanted] = tensor
            if self.ranks.world > 1:
                # Each number is some rank's, and zero on the others.
                dist.reduce(out, 0, group=self.ranks.control)
            arrays[name] = out.reshape(-1)
        return arrays

    def backward(self, number: int, arrays: dict[str, Tensor], into_trunk: bool, count: int) -> None:
        made = self._alive.get(number)
        if made is None:
            raise WorkerError("INVALID_OPTION", "backward() got a pass that was made without grad, or was used before.")
        if made.count != count:
            raise WorkerError("INVALID_OPTION", "The parameters changed since this pass; run forward again.")
        for name in ("logprobs", "entropy", "values"):
            if name in arrays and len(arrays[name]) != made.tokens:
                raise WorkerError("INVALID_OPTION", f"backward() got {len(arrays[name])} derivatives of {name} for {made.tokens} tokens.")
            if name in arrays and arrays[name].dtype != torch.float32:
                raise WorkerError("INVALID_OPTION", f"backward() got derivatives of {name} as {arrays[name].dtype}; they must be F32.")
        for name, asked in (("entropy", made.wants.entropy), ("values", made.wants.values)):
            if name in arrays and not asked:
                raise WorkerError("INVALID_OPTION", f"Derivatives of the {name} were given, but forward was not asked for the {name}.")
        del self._alive[number]
        self.shards.end_burst()
        self._spread(made, arrays, into_trunk)

    def _spread(self, made: Pass, arrays: dict[str, Tensor], into_trunk: bool) -> None:
        layout, device = made.layout, self.ranks.device
        wanted = layout.source[layout.wanted]

        def dealt(name: str, rows: Any, pad: int = 0) -> Tensor:
            """This rank's share, zero where it had nothing to do."""
            if name not in arrays or not made.works:
                return torch.zeros(len(rows) + pad, device=device)
            return to_device(np.concatenate([arrays[name].numpy()[rows], np.zeros(pad, np.float32)]), device)

        # FSDP takes the mean over ranks where we want the sum.
        world = self.ranks.world
        roots = [made.logprobs]
        cotangents = [dealt("logprobs", wanted) * world]
        # Cotangents of what was not asked for are empty, as it is.
        roots.append(made.entropy)
        cotangents.append(dealt("entropy", wanted if made.wants.entropy else wanted[:0]) * world)
        if "values" in arrays:
            of_values = dealt("values", layout.source, layout.size - layout.count)
            self._learn_values(made, of_values)
            if into_trunk:
                weight = self.masters.value[0].detach()  # type: ignore[index]
                roots.append(made.hidden)
                cotangents.append((of_values[None, :, None] * (weight * world)).to(made.hidden.dtype))
        if not ("logprobs" in arrays or "entropy" in arrays or ("values" in arrays and into_trunk)):
            return
        # Recomputed blocks ask for the attention anew; what it is must be this pass's.
        try:
            self.model.set_dropout(made.drops)
            with attention.use(made.attention):
                torch.autograd.backward(roots, cotangents)
        finally:
            self.model.set_dropout(False)

    @torch.no_grad()
    def _learn_values(self, made: Pass, of_values: Tensor) -> None:
        weight, bias = self.masters.value  # type: ignore[misc]
        gradients = torch.cat([of_values @ made.hidden[0].float(), of_values.sum()[None]])
        if self.ranks.world > 1:
            dist.all_reduce(gradients)
        for p, gradient in ((weight, gradients[:-1].view_as(weight)), (bias, gradients[-1:])):
            p.grad = gradient.clone() if p.grad is None else p.grad + gradient

    def release(self, number: int) -> None:
        self._alive.pop(number, None)

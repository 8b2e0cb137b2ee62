"""What files and masters share: which rows are this rank's, whole tensors for who writes them, and filling the masters from files."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from .errors import WorkerError
from .masters import Masters
from .optimiser import Optimiser
from .ranks import Ranks
from .tensor_files import agreed

VALUE_HEAD = ("value.weight", "value.bias")


class Tensors(Protocol):
    """Whole tensors by the names of files."""

    @property
    def names(self) -> list[str]: ...

    def shape(self, name: str) -> tuple[int, ...]: ...

    def read(self, name: str, rows: range | None = None) -> Tensor: ...


class LoadedTensors:
    """Those that are in memory already."""

    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._tensors = tensors

    @property
    def names(self) -> list[str]:
        return list(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._tensors[name].shape)

    def read(self, name: str, rows: range | None = None) -> Tensor:
        whole = self._tensors[name].float()
        return whole if rows is None else whole[rows.start : rows.stop]


def gathered(masters: Masters, index: int, part: Tensor, mine: bool) -> Tensor | None:
    """The whole of what lies as parameter `index` does. Every rank calls it; only who writes it copies it from the device."""
    p = masters.parameters[index]
    if isinstance(p, DTensor):
        part = DTensor.from_local(part, p.device_mesh, p.placements, shape=p.shape, stride=p.stride()).full_tensor()
    return part.detach().to("cpu") if mine else None


def own_rows(masters: Masters, index: int) -> range | None:
    """Those that this rank keeps (FSDP deals rows out in pieces of one size); None: all."""
    p = masters.parameters[index]
    if not isinstance(p, DTensor):
        return None
    count, world, rank = p.shape[0], masters.ranks.world, masters.ranks.rank
    piece = -(-count // world)
    return range(min(rank * piece, count), min((rank + 1) * piece, count))


def fill(masters: Masters, optimiser: Optimiser, ranks: Ranks, tensors: Tensors, names: list[str], moments: bool) -> None:
    """
    The masters become the files' numbers. All are looked at before the first is changed, so that damage leaves the policy as it was;
    to read twice costs less than to hold a second copy.
    """
    ends = ("", ":m", ":v") if moments else ("",)
    indices = [masters.names.index(name) for name in names]

    def look() -> None:
        for index, name in zip(indices, names):
            for end in ends:
                tensors.read(f"{name}{end}", own_rows(masters, index))

    agreed(ranks, look)
    weights = masters.weights()
    with torch.no_grad():
        for index, name in zip(indices, names):
            rows = own_rows(masters, index)
            weight = weights[index]
            weight.copy_(tensors.read(name, rows).view_as(weight))
            if not moments:
                optimiser.moments.pop(index, None)
                continue
            for end, moment in zip(ends[1:], optimiser.moment(index, weight)):
                moment.copy_(tensors.read(f"{name}{end}", rows).view_as(weight))
    masters.publish()
    masters.clear()


def check_shapes(masters: Masters, hidden: int, shapes: dict[str, tuple[int, ...]], where: str, any_head: bool) -> list[str]:
    """The names that are held, in the masters' order. `any_head`: whether one side may have a value head that the other lacks."""
    wanted = {name: tuple(masters.shape(index)) for index, name in enumerate(masters.names)}
    head = {"value.weight": (1, hidden), "value.bias": (1,)}
    if any(name in shapes for name in VALUE_HEAD):
        wanted.update(head)
    for name, shape in wanted.items():
        if shapes.get(name) == shape or (name in head and name not in shapes and any_head):
            continue
        if name in shapes and parts_of(name):
            raise shared_adapter(where, name)
        what = f"has {name} as {list(shapes[name])}" if name in shapes else f"lacks {name}"
        raise mismatch(where, f"it {what}; here it is {list(shape)}")
    foreign = sorted(set(shapes) - set(wanted))
    if foreign:
        raise mismatch(where, f"it has {foreign[0]}")
    return [name for name in wanted if name in shapes]


def mismatch(where: str, what: str) -> WorkerError:
    return WorkerError(
        "CHECKPOINT_MISMATCH",
        f"{where} is of another model: {what}.",
        "Load the same model with the same adapter options as the run that wrote it.",
    )


#: Modules that stand for several layers of the embedded engine, each of which has an adapter there.
_PARTS = {"c_attn": "q, k and v", "qkv_proj": "q, k and v", "gate_up_proj": "gate and up"}


def parts_of(name: str) -> str | None:
    module, lora, _ = name.partition(".lora_")
    return _PARTS.get(module.rsplit(".", 1)[-1]) if lora else None


def shared_adapter(where: str, name: str) -> WorkerError:
    module = name.removeprefix("base_model.model.").split(".lora_")[0]
    return WorkerError(
        "CHECKPOINT_MISMATCH",
        f"{where} has an adapter for each of the {parts_of(name)} of {module}; PyTorch trains one for all of them.",
        f"Such a run cannot change engines: go on where it began, or leave {module.rsplit('.', 1)[-1]} out of targetModules.",
    )

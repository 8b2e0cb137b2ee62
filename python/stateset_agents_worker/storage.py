"""Weights to files and back: the operations `save`, `load`, `snapshot` and `restore`, and those of references."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from .digest import digest
from .saved_model import save
from .snapshots import restore, snapshot
from .stored_reference import read_reference, reference_name, save_reference
from .stored_weights import fill
from .tensor_files import agreed
from .weight_source import Source, open_source

if TYPE_CHECKING:
    from .engine import Engine

__all__ = ["load", "read_reference", "reference_name", "restore", "save", "save_reference", "snapshot"]


def load(engine: Engine, options: dict[str, Any]) -> dict[str, Any]:
    """Other weights of the same shape, as one change. The optimiser begins anew with them; a value head that is not among them stays."""
    masters, optimiser = engine.masters, engine.optimiser
    source = agreed(engine.ranks, lambda: open_source(engine, options["dir"]))
    if source.value_head and masters.value is None:
        masters.add_value_head(engine.model.hidden)
    fill(masters, optimiser, engine.ranks, source.tensors, source.names, moments=False)
    optimiser.steps[0] = 0
    if source.value_head:
        optimiser.steps[1] = 0
    return {"count": engine.changed(), "digest": _digest(engine, source), "valueHead": masters.value is not None}


def _digest(engine: Engine, source: Source) -> str:
    """As it would be named had it been opened; an adapter's counts with that of the base. Rank 0 answers, and so it alone computes."""
    if engine.ranks.rank != 0:
        return ""
    names = engine.masters.names[: engine.masters.policy]
    found = digest((name, source.tensors.read(name).to(engine.ranks.device)) for name in names)
    return found if engine.model.peft is None else hashlib.sha256(f"{engine.digest}:{found}".encode()).hexdigest()

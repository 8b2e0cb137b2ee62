"""References in files: where their weights are to be found again, or, where nobody else has them, the weights (native/reference-file.ts)."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from torch import Tensor

from .digest import digest
from .errors import WorkerError, last_line
from .stored_weights import Tensors, check_shapes, gathered
from .tensor_files import MOST_BYTES, Entry, StoredTensors, agreed, need, store_json, write_shards
from .weight_source import open_source

if TYPE_CHECKING:
    from .engine import Engine

_FILE = "reference.json"
_SHARD = re.compile(r"reference-\d{5}-of-\d{5}\.safetensors")


class ReadReference(NamedTuple):
    kind: str
    #: Whole, by the names of files; None: the model without its adapter.
    tensors: Any


class _Whole:
    """Tensors that are read when they are asked for: a reference takes each to its place before the next."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors

    def __contains__(self, name: object) -> bool:
        return name in self._tensors.names

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors.read(name)


def save_reference(engine: Engine, options: dict[str, Any], most: int = MOST_BYTES) -> dict[str, Any]:
    """`version`: what the client calls it."""
    folder, masters, ranks = options["dir"], engine.masters, engine.ranks
    reference = engine.references.get(options["reference"])
    source = reference.kind if reference.kind in ("base", "opened") else "own"
    parts = reference.weights if source == "own" and reference.weights is not None else []
    entries = [
        Entry(name, tuple(masters.shape(index)), lambda mine, index=index, part=part: gathered(masters, index, part, mine))
        for index, (name, part) in enumerate(zip(masters.names, parts))
    ]
    shards = [stored for stored, _ in write_shards(ranks, folder, "reference", entries, most=most)]

    def commit() -> list[dict[str, Any]]:
        if ranks.rank != 0:
            return []
        state = {"format": 2, "engine": "torch", "source": source, "version": options["version"], "shards": shards}
        return [*shards, store_json(folder, _FILE, state)]

    return {"files": agreed(ranks, commit)}


def read_reference(engine: Engine, folder: str) -> ReadReference:
    """What save_reference() wrote, in any engine, or weights that fit the model."""
    return agreed(engine.ranks, lambda: _read(engine, folder))


def reference_name(engine: Engine, folder: str) -> dict[str, str]:
    """What the client may call it: `version` where a client gave it one, else a digest of its numbers. Rank 0 answers, and so it alone computes."""
    if engine.ranks.rank != 0:
        return {}
    if os.path.isfile(os.path.join(folder, _FILE)):
        return {"version": _state(folder)["version"]}
    source = open_source(engine, folder)
    held = engine.masters.names[: engine.masters.policy]
    return {"digest": digest((name, source.tensors.read(name).to(engine.ranks.device)) for name in held)}


def _read(engine: Engine, folder: str) -> ReadReference:
    if not os.path.isfile(os.path.join(folder, _FILE)):
        return ReadReference("own", _Whole(open_source(engine, folder).tensors))
    state = _state(folder)
    adapted = engine.model.peft is not None
    if state["source"] == "base" and adapted:
        return ReadReference("base", None)
    # Another engine names the same weights otherwise.
    same = state.get("engine") != "torch" or engine.digest.startswith(state["version"])
    if state["source"] == "opened" and same and (not adapted or engine.options.get("adapter") is not None):
        return ReadReference("opened", engine.opened())
    if state["source"] != "own":
        what = "the base of an adapter" if state["source"] == "base" else "what its policy was opened with"
        raise WorkerError("CHECKPOINT_MISMATCH", f"The reference in {folder} is {what}.", "Open the same model in the same way.")
    tensors = _tensors(folder, state["shards"])
    shapes = {name: tensors.shape(name) for name in tensors.names}
    if adapted and any(".lora_" not in name for name in shapes):
        raise WorkerError(
            "CHECKPOINT_MISMATCH",
            f"The reference in {folder} holds whole weights; beside an adapter PyTorch keeps another adapter, or none.",
            "Go on in the embedded engine, or begin with another reference.",
        )
    check_shapes(engine.masters, engine.model.hidden, shapes, f"The reference in {folder}", any_head=True)
    return ReadReference("own", _Whole(tensors))


def _state(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, _FILE)
    try:
        with open(path, encoding="utf-8") as file:
            state = json.load(file)
        need(state["format"] in (1, 2), "format")
        need(state["source"] in ("base", "opened", "own") and isinstance(state["version"], str), "source, version")
        need(all(_SHARD.fullmatch(shard["file"]) is not None for shard in state.get("shards", [])), "shards")
    except (OSError, ValueError, KeyError, TypeError) as thrown:
        raise WorkerError("CHECKPOINT_INVALID", f"The reference in {folder} cannot be read: {last_line(thrown)}.") from thrown
    if state["format"] == 1 and state["source"] == "own":
        raise WorkerError(
            "CHECKPOINT_INVALID",
            f"The reference in {folder} has the names of the embedded engine, which wrote it before references were for all engines.",
            "Go on in the embedded engine once; the next checkpoint can be read here.",
        )
    return state


def _tensors(folder: str, shards: list[dict[str, Any]]) -> StoredTensors:
    paths = [os.path.join(folder, shard["file"]) for shard in shards]
    for path, shard in zip(paths, shards):
        if not os.path.isfile(path) or os.path.getsize(path) != shard["bytes"]:
            raise WorkerError("CHECKPOINT_INVALID", f"The reference in {folder} is damaged: {shard['file']} is not whole.")
    return StoredTensors(paths)

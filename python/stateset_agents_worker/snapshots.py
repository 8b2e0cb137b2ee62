"""
Snapshots, as every engine writes them: what is trained under the names of Hugging Face and PEFT, AdamW's moments beside each (`NAME:m`,
`NAME:v`), all f32, in shards, and a small file that says what they are, comes last and makes them valid (native/snapshot.ts). Moments that
the embedded engine keeps as bf16 are read as f32.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .errors import WorkerError, last_line
from .lora_options import lora_of
from .stored_weights import check_shapes, fill, gathered, mismatch, parts_of, shared_adapter
from .tensor_files import MOST_BYTES, Entry, StoredTensors, agreed, need, store_json, write_shards

if TYPE_CHECKING:
    from .engine import Engine

FILE = "policy.json"
FORMAT = "stateset-agents policy snapshot 3"
#: What tells a snapshot's files from others in the same folder.
_SHARD = re.compile(r"policy(-\d{5}-of-\d{5})?\.safetensors")

State = dict[str, Any]


def snapshot(engine: Engine, options: dict[str, Any], most: int = MOST_BYTES) -> dict[str, Any]:
    """`version`: what the client calls these weights."""
    folder, masters, optimiser, ranks = options["dir"], engine.masters, engine.optimiser, engine.ranks
    weights = masters.weights()

    def reader(index: int, which: int) -> Callable[[bool], Tensor | None]:
        def whole(mine: bool) -> Tensor | None:
            moments = optimiser.moments.get(index)
            if which == 0:
                return gathered(masters, index, weights[index], mine)
            # None before the first step, nor of parts that are empty here.
            return gathered(masters, index, torch.zeros_like(weights[index]) if moments is None else moments[which - 1], mine)

        return whole

    entries = [
        Entry(f"{name}{end}", tuple(masters.shape(index)), reader(index, which))
        for index, name in enumerate(masters.names)
        for which, end in enumerate(("", ":m", ":v"))
    ]
    shards = [stored for stored, _ in write_shards(ranks, folder, "policy", entries, most=most)]

    def commit() -> list[dict[str, Any]]:
        if ranks.rank != 0:
            return []
        state = {
            "format": FORMAT,
            "engine": "torch",
            "architecture": engine.model.config.model_type,
            "lora": lora_of(engine),
            "valueHead": masters.value is not None,
            "steps": list(optimiser.steps),
            "dropoutPasses": engine.passes.dropout_passes,
            "version": options["version"],
            "shapes": {name: list(masters.shape(index)) for index, name in enumerate(masters.names)},
            "shards": shards,
        }
        stored = store_json(folder, FILE, state)
        # What an earlier snapshot in the same folder left.
        own = {shard["file"] for shard in shards}
        for name in os.listdir(folder):
            if _SHARD.fullmatch(name) and name not in own:
                os.unlink(os.path.join(folder, name))
        return [*shards, stored]

    return {"files": agreed(ranks, commit)}


def restore(engine: Engine, options: dict[str, Any]) -> dict[str, Any]:
    folder, masters, optimiser = options["dir"], engine.masters, engine.optimiser

    def open_checked() -> tuple[State, StoredTensors, list[str]]:
        state = read_state(folder)
        check_fit(engine, state, folder)
        names = check_shapes(masters, engine.model.hidden, shapes_of(state), f"The snapshot in {folder}", any_head=False)
        return state, open_tensors(state, folder, names), names

    state, tensors, names = agreed(engine.ranks, open_checked)
    if state["valueHead"] and masters.value is None:
        masters.add_value_head(engine.model.hidden)
    fill(masters, optimiser, engine.ranks, tensors, names, moments=True)
    optimiser.steps = [int(count) for count in state["steps"]]
    engine.passes.dropout_passes = int(state["dropoutPasses"])
    return {"count": engine.changed(), "version": state["version"], "valueHead": masters.value is not None}


def is_snapshot(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, FILE))


def read_state(folder: str) -> State:
    path = os.path.join(folder, FILE)
    if not os.path.isfile(path):
        raise WorkerError(
            "CHECKPOINT_NOT_FOUND",
            f"{folder} holds no snapshot: the worker finds no {FILE}.",
            "Folders must be readable under the same path where the worker runs.",
        )
    try:
        with open(path, encoding="utf-8") as file:
            state = json.load(file)
    except (OSError, ValueError) as thrown:
        raise WorkerError("CHECKPOINT_INVALID", f"{path} cannot be read: {last_line(thrown)}.") from thrown
    if isinstance(state, dict) and state.get("format") == "stateset-agents policy snapshot 2":
        raise WorkerError(
            "CHECKPOINT_INVALID",
            f"{path} has the names of the embedded engine, which wrote it before snapshots were for all engines.",
            "Restore it in the embedded engine once; the next snapshot can be read here.",
        )
    try:
        _check_state(state)
    except (ValueError, KeyError, TypeError, AttributeError) as thrown:
        raise WorkerError("CHECKPOINT_INVALID", f"{path} is no snapshot of the format 3: {last_line(thrown)}.") from thrown
    return state


def _check_state(state: Any) -> None:
    def count(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0

    need(state["format"] == FORMAT, "format")
    need(isinstance(state["architecture"], str) and isinstance(state["version"], str), "architecture, version")
    need(state["lora"] is None or isinstance(state["lora"], dict), "lora")
    need(isinstance(state["valueHead"], bool) and count(state["dropoutPasses"]), "valueHead, dropoutPasses")
    need(len(state["steps"]) == 2 and all(count(each) for each in state["steps"]), "steps")
    need(all(count(size) for shape in state["shapes"].values() for size in shape), "shapes")
    for shard in state["shards"]:
        # A name in the snapshot's own folder: anything else could read files that nobody meant.
        need(_SHARD.fullmatch(shard["file"]) is not None and count(shard["bytes"]), "shards")


def shapes_of(state: State) -> dict[str, tuple[int, ...]]:
    return {name: tuple(shape) for name, shape in state["shapes"].items()}


def check_fit(engine: Engine, state: State, folder: str) -> None:
    where = f"The snapshot in {folder}"
    architecture = engine.model.config.model_type
    if state["architecture"] != architecture:
        raise mismatch(where, f"it is a {state['architecture']}, not a {architecture}")
    own, stored = lora_of(engine), state["lora"]
    if (own is None) != (stored is None):
        raise mismatch(where, "it has no adapter" if stored is None else "it has an adapter")
    for key in ("rank", "alpha", "alphaPattern", "dropout") if own is not None else ():
        if (own.get(key) or 0) != (stored.get(key) or 0):
            raise mismatch(where, f"{key} of its adapter is {json.dumps(stored.get(key))}, here {json.dumps(own.get(key))}")
    fused = [name for name in state["shapes"] if parts_of(name)]
    if fused and state.get("engine") != "torch":
        raise shared_adapter(where, fused[0])


def open_tensors(state: State, folder: str, names: list[str], moments: bool = True) -> StoredTensors:
    """Refuses what was cut short, or lacks something, before a number is read."""
    for shard in state["shards"]:
        path = os.path.join(folder, shard["file"])
        size = os.path.getsize(path) if os.path.isfile(path) else None
        if size != shard["bytes"]:
            what = "is not there" if size is None else f"has {size} bytes instead of {shard['bytes']}"
            raise WorkerError("CHECKPOINT_INVALID", f"The snapshot in {folder} is damaged: {shard['file']} {what}.")
    tensors = StoredTensors([os.path.join(folder, shard["file"]) for shard in state["shards"]])
    shapes = shapes_of(state)
    for name in names:
        for end in ("", ":m", ":v") if moments else ("",):
            full = f"{name}{end}"
            if full not in tensors or tensors.shape(full) != shapes[name]:
                raise WorkerError("CHECKPOINT_INVALID", f"The snapshot in {folder} lacks {full}, or has it in another size.")
    return tensors

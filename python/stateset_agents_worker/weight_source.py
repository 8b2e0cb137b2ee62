"""Weights for a model that is already open: a snapshot, a model in Hugging Face layout, or an adapter in PEFT's."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .errors import WorkerError, last_line
from .lora_options import alpha_of, lora_of, modules_of, read_lora
from .model import load_model
from .snapshots import check_fit, is_snapshot, open_tensors, read_state, shapes_of
from .stored_weights import VALUE_HEAD, LoadedTensors, Tensors, check_shapes
from .tensor_files import StoredTensors

if TYPE_CHECKING:
    from .engine import Engine

_HEAD_FILE = "value_head.safetensors"
#: What a config.json says beside what the model computes.
_ASIDE = {"dtype", "torch_dtype", "transformers_version", "_name_or_path", "use_cache", "architectures"}


@dataclass
class Source:
    """Everything it holds that the model has, too; the value head among it, where there is one."""

    tensors: Tensors
    names: list[str]

    @property
    def value_head(self) -> bool:
        return VALUE_HEAD[0] in self.names


def open_source(engine: Engine, folder: str) -> Source:
    """Refuses what does not fit before anything is read. On every rank, without collectives."""
    if is_snapshot(folder):
        return _snapshot(engine, folder)
    if os.path.isfile(os.path.join(folder, "config.json")):
        return _model(engine, folder)
    if os.path.isfile(os.path.join(folder, "adapter_config.json")):
        return _adapter(engine, folder)
    raise WorkerError(
        "MODEL_NOT_FOUND",
        f"The worker finds no weights in {folder}.",
        "Give a snapshot, a folder in Hugging Face layout, or a folder with a PEFT adapter; it must be readable under the same path there.",
    )


def _snapshot(engine: Engine, folder: str) -> Source:
    state = read_state(folder)
    check_fit(engine, state, folder)
    names = check_shapes(engine.masters, engine.model.hidden, shapes_of(state), f"The snapshot in {folder}", any_head=True)
    return Source(open_tensors(state, folder, names, moments=False), names)


def _model(engine: Engine, folder: str) -> Source:
    if engine.model.peft is not None:
        raise WorkerError(
            "INVALID_OPTION",
            f"{folder} holds whole weights, and what is open is trained by an adapter.",
            "Give the folder of an adapter, or open the model with openPolicy().",
        )
    if _config(folder) != _config(engine.options["model"]):
        what = f"{folder} holds a model of another shape than the one that is open."
        raise WorkerError("CHECKPOINT_MISMATCH", what, "Open it with openPolicy() instead.")
    names = engine.masters.names[: engine.masters.policy]
    tensors: Tensors | None = _plainly(folder, names)
    if tensors is None:
        # Under other names, as older files and merged layers have them: transformers knows which.
        loaded = load_model({"model": folder, "dtype": "f32"}, torch.device("cpu"), 1)
        head = StoredTensors(_head(folder), "MODEL_INVALID")
        tensors = LoadedTensors({**{name: p.detach() for name, p in loaded.trained()}, **{name: head.read(name) for name in head.names}})
    shapes = {name: tensors.shape(name) for name in [*names, *VALUE_HEAD] if name in tensors.names}
    return Source(tensors, check_shapes(engine.masters, engine.model.hidden, shapes, f"The model in {folder}", any_head=True))


def _plainly(folder: str, names: list[str]) -> StoredTensors | None:
    """Where the files have every tensor under the name that the module has."""
    index = os.path.join(folder, "model.safetensors.index.json")
    files = ["model.safetensors"]
    if os.path.isfile(index):
        with open(index, encoding="utf-8") as file:
            files = sorted({os.path.basename(name) for name in json.load(file)["weight_map"].values()})
    paths = [os.path.join(folder, file) for file in files]
    if not all(os.path.isfile(path) for path in paths):
        return None
    tensors = StoredTensors(paths + _head(folder), "MODEL_INVALID")
    return tensors if all(name in tensors for name in names) else None


def _config(folder: str) -> dict[str, Any]:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True).to_dict()
    except Exception as thrown:
        raise WorkerError("MODEL_INVALID", f"The config.json in {folder} cannot be read: {last_line(thrown)}.") from thrown
    return {key: value for key, value in config.items() if key not in _ASIDE}


def _adapter(engine: Engine, folder: str) -> Source:
    own, lora = lora_of(engine), read_lora(folder)
    names = engine.masters.names[: engine.masters.policy]
    same = own is not None and own["rank"] == lora["rank"]
    if not same or any(alpha_of(own, module) != alpha_of(lora, module) for module in modules_of(names)):  # type: ignore[arg-type]
        has = "has none" if own is None else f"has one with {json.dumps(own)}"
        raise WorkerError("CHECKPOINT_MISMATCH", f"{folder} is an adapter with {json.dumps(lora)}; what is open {has}.")
    file = os.path.join(folder, "adapter_model.safetensors")
    if not os.path.isfile(file):
        raise WorkerError("MODEL_NOT_FOUND", f"{folder} has adapter_config.json but no adapter_model.safetensors.")
    tensors = StoredTensors([file, *_head(folder)], "MODEL_INVALID")
    shapes = {name: tensors.shape(name) for name in tensors.names}
    return Source(tensors, check_shapes(engine.masters, engine.model.hidden, shapes, f"The adapter in {folder}", any_head=True))


def _head(folder: str) -> list[str]:
    file = os.path.join(folder, _HEAD_FILE)
    return [file] if os.path.isfile(file) else []

"""Models for others to load: Hugging Face layout, or PEFT's where an adapter is saved by itself. The client adds the tokenizer's files."""

from __future__ import annotations

import copy
import json
import os
import re
import tempfile
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from .errors import WorkerError, last_line
from .model import load_model
from .ranks import Ranks
from .stored_weights import VALUE_HEAD, gathered
from .tensor_files import MOST_BYTES, Entry, StoredFile, agreed, store_bytes, store_json, write_shards

if TYPE_CHECKING:
    from .engine import Engine

_INDEX = "model.safetensors.index.json"
_MODEL_FILE = re.compile(r"model(-\d{5}-of-\d{5})?\.safetensors(\.index\.json)?")
_FORMAT = {"format": "pt"}
_ADAPTER, _BASE = "base_model.model.", ".base_layer"


def save(engine: Engine, options: dict[str, Any], most: int = MOST_BYTES) -> dict[str, Any]:
    """`merge`: the adapter in its base; `dtype` "bf16" rounds; `base`: what an adapter's configuration calls the model under it."""
    folder = options["dir"]
    dtype = "BF16" if options.get("dtype") == "bf16" else "F32"
    if engine.model.peft is not None and not options.get("merge"):
        files = _save_adapter(engine, folder, options.get("base") or engine.options["model"])
    else:
        files = _save_whole(engine, folder, dtype, most)
    return {"files": files + _save_head(engine, folder)}


def _trained_entries(engine: Engine, names: list[str], dtype: str) -> list[Entry]:
    masters = engine.masters
    weights = masters.weights()
    indices = [masters.names.index(name) for name in names]
    return [
        Entry(name, tuple(masters.shape(index)), lambda mine, index=index: gathered(masters, index, weights[index], mine), dtype)
        for name, index in zip(names, indices)
    ]


def _save_adapter(engine: Engine, folder: str, base: str) -> list[StoredFile]:
    """In one file, which rank 0 writes: adapters are small, and PEFT reads no shards."""
    tensors = _on_rank_0(engine, engine.masters.names[: engine.masters.policy])

    def write() -> list[StoredFile]:
        if engine.ranks.rank != 0:
            return []
        entries = [Entry(name, tuple(tensor.shape), lambda mine, tensor=tensor: tensor) for name, tensor in tensors.items()]
        single = Ranks(1, 0, engine.ranks.device)
        written = write_shards(single, folder, "adapter_model", entries, _FORMAT, most=1 << 62, alone="adapter_model.safetensors")
        config = copy.deepcopy(engine.model.peft.peft_config["default"])
        config.inference_mode, config.base_model_name_or_path = True, base
        with tempfile.TemporaryDirectory() as own:
            config.save_pretrained(own)
            with open(os.path.join(own, "adapter_config.json"), "rb") as file:
                stored = store_bytes(folder, "adapter_config.json", file.read())
        return [*(each for each, _ in written), stored]

    return agreed(engine.ranks, write)


def _save_head(engine: Engine, folder: str) -> list[StoredFile]:
    if engine.masters.value is None:
        return []
    tensors = _on_rank_0(engine, list(VALUE_HEAD))

    def write() -> list[StoredFile]:
        if engine.ranks.rank != 0:
            return []
        entries = [Entry(name, tuple(tensor.shape), lambda mine, tensor=tensor: tensor) for name, tensor in tensors.items()]
        written = write_shards(Ranks(1, 0, engine.ranks.device), folder, "value_head", entries, alone="value_head.safetensors")
        return [each for each, _ in written]

    return agreed(engine.ranks, write)


def _on_rank_0(engine: Engine, names: list[str], everywhere: bool = False) -> dict[str, Tensor]:
    """Whole tensors, gathered. Every rank calls it."""
    masters = engine.masters
    weights = masters.weights()
    mine = everywhere or engine.ranks.rank == 0
    found = {name: gathered(masters, index, weights[index], mine) for index, name in enumerate(masters.names) if name in names}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def _save_whole(engine: Engine, folder: str, dtype: str, most: int) -> list[StoredFile]:
    config = agreed(engine.ranks, lambda: _config(engine))
    if engine.model.peft is None:
        entries = _trained_entries(engine, engine.masters.names[: engine.masters.policy], dtype)
    else:
        entries = _merged_entries(engine, config, dtype)
    written = write_shards(engine.ranks, folder, "model", entries, _FORMAT, most, alone="model.safetensors")

    def commit() -> list[StoredFile]:
        if engine.ranks.rank != 0:
            return []
        files = [stored for stored, _ in written]
        if len(files) > 1:
            weight_map = {entry.name: stored["file"] for stored, shard in written for entry in shard}
            total = sum(entry.bytes for entry in entries)
            files.append(store_json(folder, _INDEX, {"metadata": {"total_size": total}, "weight_map": weight_map}))
        own = {stored["file"] for stored in files}
        # What was saved there before in another number of files would be read instead.
        for name in os.listdir(folder):
            if _MODEL_FILE.fullmatch(name) and name not in own:
                os.unlink(os.path.join(folder, name))
        return [*files, store_json(folder, "config.json", _stored_as(config, dtype))]

    return agreed(engine.ranks, commit)


def _config(engine: Engine) -> dict[str, Any]:
    path = os.path.join(engine.options["model"], "config.json")
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as thrown:
        raise WorkerError("MODEL_INVALID", f"{path} cannot be read: {last_line(thrown)}.") from thrown


def _stored_as(config: dict[str, Any], dtype: str) -> dict[str, Any]:
    """With what the weights are stored as now; the key is called dtype since transformers 5."""
    key = "torch_dtype" if "torch_dtype" in config else "dtype"
    return {**{k: v for k, v in config.items() if k != "quantization_config"}, key: "bfloat16" if dtype == "BF16" else "float32"}


def _merged_entries(engine: Engine, config: dict[str, Any], dtype: str) -> list[Entry]:
    """Every tensor of the base, with (alpha / rank)·B·A added where an adapter sits on it, in f32."""
    model = engine.model
    adapters = _on_rank_0(engine, engine.masters.names[: engine.masters.policy], everywhere=True)
    names = [name for name, _ in model.causal.named_parameters() if ".lora_" not in name]
    base, shape_of = _base_tensors(engine, config)
    transposed = model.config.model_type == "gpt2"

    def whole(name: str, mine: bool) -> Tensor | None:
        found = base(name, mine)
        if found is None or not name.endswith(f"{_BASE}.weight"):
            return found
        path = name.removesuffix(f"{_BASE}.weight")
        a, b = (adapters[f"{_ADAPTER}{path}.lora_{side}.weight"].to(found.device) for side in "AB")
        delta = model.causal.get_submodule(path).scaling["default"] * (b @ a)
        return found.float() + (delta.t() if transposed else delta)

    def entry(name: str) -> Entry:
        return Entry(name.replace(_BASE, ""), shape_of(name), lambda mine: whole(name, mine), dtype)

    return [entry(name) for name in names]


def _base_tensors(engine: Engine, config: dict[str, Any]) -> tuple[Callable[[str, bool], Tensor | None], Callable[[str], tuple[int, ...]]]:
    """What is computed with, where that is what the files hold; else (4 bits, or f32 files computed in bf16) the files once more."""
    model = engine.model
    stored = {"bfloat16": torch.bfloat16, "float32": torch.float32}.get(config.get("dtype") or config.get("torch_dtype") or "")
    if engine.options.get("quantise") is None and model.compute in (torch.float32, stored):

        def live(name: str, mine: bool) -> Tensor | None:
            p = model.causal.get_parameter(name).detach()
            whole = p.full_tensor() if isinstance(p, DTensor) else p
            return whole if mine else None

        return live, lambda name: tuple(model.causal.get_parameter(name).shape)
    plain = {**engine.options, "adapter": None, "lora": None, "quantise": None, "dtype": "f32"}
    again = agreed(engine.ranks, lambda: load_model(plain, torch.device("cpu"), 1)).causal

    def filed(name: str) -> Tensor:
        return again.get_parameter(name.replace(_BASE, "")).detach()

    return lambda name, mine: filed(name) if mine else None, lambda name: tuple(filed(name).shape)

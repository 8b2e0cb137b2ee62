"""The model: transformers' own modules, loaded from a folder, with PEFT's adapters on them where asked for."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from . import attention
from .errors import WorkerError, is_out_of_memory, last_line

#: What layers may attend to. Models with other kinds (chunks, states) are refused.
_LAYER_TYPES = {"full_attention", "sliding_attention"}


@dataclass
class Model:
    #: What AutoModelForCausalLM gives; adapters sit inside it.
    causal: Any
    #: PEFT around it, or none.
    peft: Any
    compute: torch.dtype
    #: The blocks of the transformer, first to last.
    blocks: list[nn.Module]
    #: The windows that its layers have; None is to see everything.
    windows: set[int | None]
    vocab: int
    hidden: int
    context: int

    @property
    def config(self) -> Any:
        return self.causal.config

    @property
    def text(self) -> Any:
        return self.causal.config.get_text_config()

    @property
    def trunk(self) -> nn.Module:
        return self.causal.base_model

    @property
    def head(self) -> Any:
        return self.causal.get_output_embeddings()

    @property
    def head_dim(self) -> int:
        return getattr(self.text, "head_dim", None) or self.hidden // self.text.num_attention_heads

    def trained(self) -> list[tuple[str, nn.Parameter]]:
        """What is trained beside a value head, under the names it has in files."""
        return [(self.name_in_files(name), p) for name, p in self.causal.named_parameters() if p.requires_grad]

    def name_in_files(self, name: str) -> str:
        return name if self.peft is None else f"base_model.model.{name.replace('.default.', '.')}"

    def set_dropout(self, on: bool) -> None:
        """That of the adapter alone: the base model's own is off, as in the embedded engine."""
        if self.peft is not None:
            for name, module in self.causal.named_modules():
                if isinstance(module, nn.Dropout) and "lora_dropout" in name:
                    module.training = on


def load_model(options: dict[str, Any], device: torch.device, world: int) -> Model:
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.utils import logging

    # A log is read by lines.
    logging.disable_progress_bar()
    attention.register()
    folder = options["model"]
    if not os.path.isfile(os.path.join(folder, "config.json")):
        raise WorkerError(
            "MODEL_NOT_FOUND",
            f"The worker finds no config.json in {folder}.",
            "Model folders must be readable under the same path where the worker runs.",
        )
    adapted = options.get("adapter") is not None or options.get("lora") is not None
    compute = _compute_dtype(options.get("dtype") or "auto", device)
    quantise = _quantisation(options.get("quantise"), compute, device, world, adapted)
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        # What is trained begins with all the bits of its files; what is frozen is kept as it is computed with.
        causal, report = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=compute if adapted else torch.float32,
            attn_implementation=attention.NAME,
            local_files_only=True,
            # Refused below, by name.
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **({"quantization_config": quantise, "device_map": {"": device}} if quantise is not None else {}),
        )
    except WorkerError:
        raise
    except KeyError as error:
        if error.args == (attention.NAME,):
            raise WorkerError(
                "MODEL_UNSUPPORTED", f"The attention of the model in {folder} cannot be replaced: it does not use transformers' interface."
            ) from error
        raise WorkerError("MODEL_UNSUPPORTED", f"transformers cannot load {folder}: {last_line(error)}.") from error
    except (ValueError, ImportError) as error:
        raise WorkerError("MODEL_UNSUPPORTED", f"transformers cannot load {folder}: {last_line(error)}.") from error
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise WorkerError("MODEL_INVALID", f"{folder} cannot be loaded: {last_line(error)}.") from error
    _check_loaded(folder, report)
    causal.eval().requires_grad_(not adapted)
    # To torch the row of a padding token has no gradient; a token is a token here.
    causal.get_input_embeddings().padding_idx = None
    if quantise is None and world == 1:
        causal.to(device)
    model = _describe(causal, compute)
    if adapted:
        _adapt(model, options)
    return model


def _compute_dtype(asked: str, device: torch.device) -> torch.dtype:
    names = {"f32": torch.float32, "bf16": torch.bfloat16, "auto": torch.bfloat16 if device.type == "cuda" else torch.float32}
    if asked not in names:
        raise WorkerError("INVALID_OPTION", f'dtype is "{asked}"; it must be "auto", "f32" or "bf16".')
    return names[asked]


def _quantisation(asked: str | None, compute: torch.dtype, device: torch.device, world: int, adapted: bool) -> Any:
    if asked is None:
        return None
    refused = None
    if asked != "nf4":
        raise WorkerError("INVALID_OPTION", f'quantise is "{asked}"; it must be "nf4".')
    if device.type != "cuda":
        refused = "needs a CUDA device, and the worker has none"
    elif world > 1:
        refused = "runs on one GPU; this worker has several ranks"
    elif not adapted:
        refused = "cannot be trained whole; give `lora`"
    else:
        try:
            import bitsandbytes  # noqa: F401
        except ImportError:
            refused = "needs the Python package bitsandbytes, which the worker does not have"
    if refused is not None:
        raise WorkerError("MODEL_UNSUPPORTED", f"A base model in 4 bits (nf4) {refused}.")
    from transformers import BitsAndBytesConfig

    return BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=compute)


def _check_loaded(folder: str, report: dict[str, Any]) -> None:
    for kind, what in (("missing_keys", "lack"), ("mismatched_keys", "have in another shape")):
        # Those of another shape come with both shapes.
        names = sorted(one if isinstance(one, str) else str(one[0]) for one in report.get(kind) or ())
        if names:
            shown = ", ".join(names[:4]) + (f" and {len(names) - 4} more tensors" if len(names) > 4 else "")
            raise WorkerError(
                "MODEL_INVALID", f"The weights in {folder} {what} {shown}.", "The files are incomplete, or config.json belongs to another model."
            )


def _describe(causal: Any, compute: torch.dtype) -> Model:
    text = causal.config.get_text_config()
    odd = set(getattr(text, "layer_types", None) or ()) - _LAYER_TYPES
    if odd:
        raise WorkerError("MODEL_UNSUPPORTED", f"{text.model_type} has layers of the kind {', '.join(sorted(odd))}, which trees cannot pass through.")
    layers = text.num_hidden_layers
    lists = [module for module in causal.modules() if isinstance(module, nn.ModuleList) and len(module) == layers]
    if not lists:
        raise WorkerError("MODEL_UNSUPPORTED", f"The worker finds no list of the {layers} blocks of a {text.model_type}.")
    window = getattr(text, "sliding_window", None)
    most = int(getattr(text, "max_position_embeddings", 0) or getattr(text, "n_positions", 0) or 1 << 20)
    head = causal.get_output_embeddings()
    if head is None:
        raise WorkerError("MODEL_UNSUPPORTED", f"{text.model_type} has no head over the vocabulary.")
    return Model(causal, None, compute, list(lists[0]), {None, window}, head.weight.shape[0], text.hidden_size, most)


def _adapt(model: Model, options: dict[str, Any]) -> None:
    from peft import LoraConfig, get_peft_model

    folder, lora = options.get("adapter"), options.get("lora")
    conv1d = model.config.model_type == "gpt2"
    if folder is not None:
        config = _adapter_config(folder)
    else:
        targets = lora["targetModules"]
        _check_targets(model, targets)
        config = LoraConfig(
            r=lora["rank"],
            lora_alpha=lora["alpha"],
            alpha_pattern=dict(lora.get("alphaPattern") or {}),
            lora_dropout=lora["dropout"],
            target_modules=targets if isinstance(targets, str) else list(targets),
            task_type="CAUSAL_LM",
            fan_in_fan_out=conv1d,
        )
    frozen = {id(p) for p in model.causal.parameters()}
    try:
        # Not in f32: masters are. PEFT would turn every activation to f32 and back.
        model.peft = get_peft_model(model.causal, config, autocast_adapter_dtype=False)
    except (ValueError, TypeError) as error:
        code, what = ("INVALID_OPTION", "these lora options") if folder is None else ("MODEL_INVALID", f"the lora adapter in {folder}")
        raise WorkerError(code, f"PEFT does not take {what}: {last_line(error)}.") from error
    model.causal.eval()
    for p in model.causal.parameters():
        p.requires_grad_(id(p) not in frozen)
    start = first_adapter(model, int(options.get("seed") or 0)) if folder is None else read_adapter(folder, [n for n, _ in model.trained()])
    with torch.no_grad():
        for name, p in model.trained():
            if start[name].shape != p.shape:
                raise WorkerError("MODEL_INVALID", f"{name} in {folder} has the shape {list(start[name].shape)}; the model under it wants {list(p.shape)}.")
            # All its bits, for the masters to begin with; on its way to compute it is rounded.
            p.data = start[name].to(p.device, torch.float32)


def _check_targets(model: Model, targets: Any) -> None:
    if isinstance(targets, str):
        return
    head = model.head
    names = [n for n, m in model.causal.named_modules() if (isinstance(m, nn.Linear) or type(m).__name__ == "Conv1D") and m is not head]
    for target in targets:
        if not any(name == target or name.endswith(f".{target}") for name in names):
            has = ", ".join(sorted({name.rpartition(".")[2] for name in names}))
            what = f'lora.targetModules names "{target}", which the model does not have.'
            raise WorkerError("INVALID_OPTION", what, f'It has {has}; "all-linear" is all of them.')


def _adapter_config(folder: str) -> Any:
    from peft import LoraConfig

    try:
        config = LoraConfig.from_pretrained(folder)
    except Exception as error:
        raise WorkerError("MODEL_INVALID", f"The adapter_config.json in {folder} cannot be read: {last_line(error)}.") from error
    with open(os.path.join(folder, "adapter_config.json"), encoding="utf-8") as file:
        kind = json.load(file).get("peft_type")
    if kind != "LORA" or config.use_dora or config.bias != "none" or config.modules_to_save:
        raise WorkerError("MODEL_UNSUPPORTED", f"The adapter in {folder} is more than LoRA on linear layers.")
    config.inference_mode = False
    # Where it began does not matter any more, and some beginnings would change the base.
    config.init_lora_weights = True
    return config


def read_adapter(folder: str, names: list[str]) -> dict[str, Tensor]:
    file = os.path.join(folder, "adapter_model.safetensors")
    if not os.path.isfile(file):
        raise WorkerError("MODEL_NOT_FOUND", f"{folder} has adapter_config.json but no adapter_model.safetensors.")
    tensors = load_file(file)
    missing, surplus = sorted(set(names) - set(tensors)), sorted(set(tensors) - set(names))
    if missing or surplus:
        what = f"lacks {missing[0]}" if missing else f"holds {surplus[0]}, which its configuration does not name"
        raise WorkerError("MODEL_INVALID", f"{file} {what}.", "The adapter was trained on another model.")
    return tensors


def first_adapter(model: Model, seed: int) -> dict[str, Tensor]:
    """A as PEFT draws it (uniform, by the root of its width), from the seed and on the CPU, so that it is the same everywhere; B zero."""
    generator = torch.Generator().manual_seed(seed & 0x7FFF_FFFF_FFFF_FFFF)
    drawn = {}
    for name, p in model.trained():
        whole = torch.zeros(p.shape)
        if "lora_A" in name:
            bound = whole.shape[1] ** -0.5
            whole.uniform_(-bound, bound, generator=generator)
        drawn[name] = whole
    return drawn

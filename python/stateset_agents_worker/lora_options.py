"""An adapter's options as snapshots name them: those of the client, or what its adapter_config.json says."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

from .errors import WorkerError, last_line

if TYPE_CHECKING:
    from .engine import Engine

Lora = dict[str, Any]


def lora_of(engine: Engine) -> Lora | None:
    """Of the model that is open; None where all weights are trained."""
    folder, lora = engine.options.get("adapter"), engine.options.get("lora")
    if folder is not None:
        return read_lora(folder)
    if lora is None:
        return None
    pattern = {"alphaPattern": lora["alphaPattern"]} if lora.get("alphaPattern") else {}
    return {"rank": lora["rank"], "alpha": lora["alpha"], **pattern, "dropout": lora["dropout"], "targetModules": lora["targetModules"]}


def read_lora(folder: str) -> Lora:
    """The alphas are those that give every module the scale PEFT gives it, were its rank the adapter's, as native/peft-config.ts has it."""
    path = os.path.join(folder, "adapter_config.json")
    try:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        rank, alpha = config["r"], config["lora_alpha"]
        ranks, alphas = config.get("rank_pattern") or {}, config.get("alpha_pattern") or {}
    except (OSError, ValueError, KeyError, TypeError) as thrown:
        raise WorkerError("MODEL_INVALID", f"{path} cannot be read: {last_line(thrown)}.") from thrown

    def scaled(of_alpha: float, of_rank: int) -> float:
        return _plain(of_alpha / math.sqrt(of_rank) * rank if config.get("use_rslora") else of_alpha / of_rank * rank)

    usual = scaled(alpha, rank)
    own = {name: scaled(alphas.get(name, alpha), ranks.get(name, rank)) for name in [*ranks, *(n for n in alphas if n not in ranks)]}
    pattern = {"alphaPattern": own} if any(value != usual for value in own.values()) else {}
    targets = config.get("target_modules")
    return {
        "rank": rank,
        "alpha": usual,
        **pattern,
        "dropout": config.get("lora_dropout") or 0,
        "targetModules": "all-linear" if targets is None else targets,
    }


def _plain(number: float) -> float:
    """A whole number is written as one."""
    return int(number) if float(number).is_integer() else number


def alpha_of(lora: Lora, module: str) -> float:
    """Of the first pattern that its name ends with, or the adapter's own."""
    for name, alpha in (lora.get("alphaPattern") or {}).items():
        if module == name or module.endswith(f".{name}"):
            return float(alpha)
    return float(lora["alpha"])


def modules_of(names: list[str]) -> list[str]:
    """The modules that adapters sit on, from the names of their tensors in files."""
    ends = ".lora_A.weight"
    return [name.removeprefix("base_model.model.").removesuffix(ends) for name in names if name.endswith(ends)]

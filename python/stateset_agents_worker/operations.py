"""The operations of the wire, by name: options and arrays in, a result and arrays out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from .errors import WorkerError
from .optimiser import StepOptions
from .passes import Wants

if TYPE_CHECKING:
    from .engine import Engine

Result = tuple[dict[str, Any], dict[str, Tensor]]


def _temperature(options: dict[str, Any]) -> float:
    temperature = options.get("temperature")
    temperature = 1.0 if temperature is None else float(temperature)
    if not 0 < temperature < math.inf:
        raise WorkerError(
            "INVALID_OPTION",
            f"forward() got the temperature {temperature}; it must be above 0.",
            "Greedy samples (temperature 0) carry the log-probs of temperature 1.",
        )
    return temperature


def _forward(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    flags = {name: bool(options.get(name)) for name in ("entropy", "values", "hidden", "recompute")}
    wants = Wants(grad=options.get("grad") is not False, temperature=_temperature(options), **flags)
    number, found = engine.passes.forward(engine.tree(arrays), wants, engine.count)
    return {"pass": number}, found


def _backward(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    engine.passes.backward(options["pass"], arrays, options.get("valuesIntoTrunk") is not False, engine.count)
    return {}, {}


def _release(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    engine.passes.release(options["pass"])
    return {}, {}


def _step(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    read = StepOptions.read(options)
    if options.get("loraPlusRatio") is not None and engine.model.peft is None:
        raise WorkerError(
            "INVALID_OPTION", "step() got loraPlusRatio, but the model has no adapter.", "Open it with `lora`, or leave loraPlusRatio out."
        )
    engine.shards.end_burst()
    norm, applied = engine.optimiser.step(read)
    count = engine.changed() if applied else engine.count
    # Not a number in JSON: null stands for what is not finite.
    return {"gradNorm": norm if math.isfinite(norm) else None, "applied": applied, "count": count}, {}


def _zero_gradients(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    engine.masters.clear()
    return {}, {}


def _add_value_head(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    if engine.masters.value is None:
        engine.masters.add_value_head(engine.model.hidden)
    return {}, {}


def _reference(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    of, references = options.get("of") or "present", engine.references
    adapted = engine.model.peft is not None
    named: dict[str, str] = {}
    if of == "present":
        # What the files have need not be written again; those of a new adapter nobody has.
        opened = engine.count == 0 and (not adapted or engine.options.get("adapter") is not None)
        made = references.keep("opened" if opened else "present", references.present())
    elif of == "base" and adapted:
        made = references.keep("base", None)
    elif of == "base":
        now = engine.count == 0
        made = references.keep("opened", references.present() if now else references.of(engine.opened()))
    elif isinstance(of, dict):
        from . import storage

        folder = _folder("reference", of, "from")
        kind, tensors = storage.read_reference(engine, folder)
        made = references.keep(kind, None if tensors is None else references.of(tensors))
        named = storage.reference_name(engine, folder)
    else:
        raise WorkerError("INVALID_OPTION", f"A reference cannot be made of {ascii(of)[:80]}.")
    return {"reference": made, "kind": references.get(made).kind, "count": engine.count, **named}, {}


def _reference_logprobs(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    found = engine.references.logprobs(options["reference"], engine.tree(arrays), _temperature(options))
    return {}, {"logprobs": found}


def _reference_blend(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    engine.references.blend(options["reference"], options["decay"])
    return {"count": engine.count}, {}


def _reference_close(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    engine.references.close(options["reference"])
    return {}, {}


def _vector(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    return _vector_result(engine, engine.vectors.make(options["of"]))


def _vector_result(engine: Engine, made: int) -> Result:
    return {"vector": made, "length": engine.vectors.length}, {}


def _vector_add(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    engine.vectors.add(options["a"], options["b"], options["scale"])
    return {}, {}


def _vector_scale(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    engine.vectors.scale(options["a"], options["factor"])
    return {}, {}


def _vector_move(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    engine.shards.end_burst()
    engine.vectors.move_to(options["a"])
    return {"count": engine.changed()}, {}


def _vector_release(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    engine.vectors.release(options["vector"])
    return {}, {}


def _folder(op: str, options: dict[str, Any], name: str) -> str:
    """Looked at before the ranks share work out: one that stumbles over it alone would be missed."""
    folder = options.get(name)
    if not isinstance(folder, str) or folder == "" or "\0" in folder:
        raise WorkerError("INVALID_OPTION", f"{op}() got {name} = {ascii(folder)[:80]}; it must be the path of a folder.")
    return folder


def _stored(name: str, wants_version: bool = False) -> Callable[[Engine, dict[str, Any], dict[str, Tensor]], Result]:
    def run(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
        from . import storage

        _folder(name, options, "dir")
        if wants_version and not isinstance(options.get("version"), str):
            raise WorkerError("INVALID_OPTION", f"{name}() got version = {ascii(options.get('version'))[:80]}; it must be a text.")
        engine.shards.end_burst()
        return getattr(storage, name)(engine, options), {}

    return run


OPERATIONS: dict[str, Callable[[Engine, dict[str, Any], dict[str, Tensor]], Result]] = {
    "forward": _forward,
    "backward": _backward,
    "release": _release,
    "step": _step,
    "zeroGradients": _zero_gradients,
    "addValueHead": _add_value_head,
    "reference": _reference,
    "referenceLogprobs": _reference_logprobs,
    "referenceBlend": _reference_blend,
    "referenceSave": _stored("save_reference", wants_version=True),
    "referenceClose": _reference_close,
    "vector": _vector,
    "vectorDot": lambda engine, options, arrays: ({"dot": engine.vectors.dot(options["a"], options["b"])}, {}),
    "vectorAdd": _vector_add,
    "vectorScale": _vector_scale,
    "vectorCopy": lambda engine, options, arrays: _vector_result(engine, engine.vectors.copy(options["a"])),
    "vectorRead": lambda engine, options, arrays: ({}, {"values": engine.vectors.read(options["a"])}),
    "vectorMove": _vector_move,
    "vectorRelease": _vector_release,
    "save": _stored("save"),
    "load": _stored("load"),
    "snapshot": _stored("snapshot", wants_version=True),
    "restore": _stored("restore"),
}

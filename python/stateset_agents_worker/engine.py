"""The engine of one rank: what `open` makes, and the operations on it. Every rank calls the same with the same arguments."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from .digest import digest
from .errors import WorkerError
from .lora import join_adapters
from .masters import Masters
from .model import Model, load_model, read_adapter
from .optimiser import Optimiser, StepOptions
from .passes import Passes, Wants
from .probe import probe
from .ranks import Ranks
from .references import References
from .scorer import Blocks, Scorer, Shards
from .tree import TokenTree, read_tree
from .vectors import Vectors

Result = tuple[dict[str, Any], dict[str, Tensor]]

#: Replies that are sampled together where nobody says how many.
SLOTS = 64


class Engine:
    def __init__(self, options: dict[str, Any], model: Model, ranks: Ranks) -> None:
        self.options, self.model, self.ranks = options, model, ranks
        #: Changes of the weights since open.
        self.count = 0
        named = model.causal.named_parameters()
        self._parameters = sum(p.numel() for p in model.causal.parameters())
        self.digest = digest((model.name_in_files(name), p) for name, p in named)
        self.scorer = Scorer(model)
        if ranks.world == 1:
            self.masters = Masters(model.trained(), model.compute, ranks)
        if ranks.device.type == "cuda":
            join_adapters(model)
        compiled = options.get("compile")
        self.blocks = Blocks(model, ranks.device.type == "cuda" if compiled is None else bool(compiled))
        self.shards = Shards(self.scorer, model, ranks)
        if ranks.world > 1:
            # Sharding makes the parameters others.
            self.masters = Masters(model.trained(), model.compute, ranks)
        self.optimiser = Optimiser(self.masters)
        self.passes = Passes(model, self.masters, self.scorer, self.blocks, self.shards, ranks, int(options.get("seed") or 0))
        self.vectors = Vectors(self.masters, self.optimiser)
        self.references = References(self.masters, self.passes)
        self._read_value_head()
        self.sampler = self._sampler()

    @staticmethod
    def open(options: dict[str, Any], ranks: Ranks) -> Engine:
        model = load_model(options, ranks.device, ranks.world)
        probe(model)
        return Engine(options, model, ranks)

    def _sampler(self) -> Any:
        from .sampler import Sampler

        return Sampler(
            self.model.causal,
            slots=int(self.options.get("slots") or SLOTS),
            context_length=self.model.context,
            cache_tokens=self.options.get("cacheTokens"),
            dtype=self.model.compute,
            burst=self.shards if self.ranks.world > 1 else None,
            count=lambda: self.count,
        )

    def _read_value_head(self) -> None:
        file = os.path.join(self.options.get("adapter") or self.options["model"], "value_head.safetensors")
        if os.path.isfile(file):
            self.masters.add_value_head(self.model.hidden)
            self.masters.write(load_file(file))

    def info(self) -> dict[str, Any]:
        masters, text = self.masters, self.model.text
        return {
            "architecture": self.model.config.model_type,
            "parameters": self._parameters,
            "trainableParameters": self.vectors.length,
            "hiddenSize": self.model.hidden,
            "layers": len(self.model.blocks),
            "vocabSize": self.model.vocab,
            "contextLength": self.model.context,
            "digest": self.digest,
            "valueHead": masters.value is not None,
            "count": self.count,
            "slots": int(self.options.get("slots") or SLOTS),
            "bytes": self._bytes(text),
            "capabilities": {
                "exact": False,
                "seeded": False,
                "entropy": True,
                "values": True,
                "hidden": True,
                "vectors": True,
                "loraPlus": True,
                "constrain": False,
                "promptLogprobs": False,
                "embed": False,
                "passesInFlight": 2,
                "ranks": self.ranks.world,
            },
        }

    def _bytes(self, text: Any) -> dict[str, int]:
        """`perToken`: what a pass keeps of a token until backward; `perTokenRecompute` the same where blocks are computed again."""
        size = self.model.compute.itemsize
        hidden, inter = self.model.hidden, getattr(text, "intermediate_size", None) or 4 * self.model.hidden
        heads = text.num_attention_heads
        head_dim = self.model.head_dim
        kv = 2 * (getattr(text, "num_key_value_heads", None) or heads) * head_dim
        layers = len(self.model.blocks)
        in_block = size * (6 * hidden + 3 * heads * head_dim + 2 * kv + 4 * inter)
        cuda = self.ranks.device.type == "cuda"
        free, total = torch.cuda.mem_get_info(self.ranks.device) if cuda else _memory()
        return {
            "weights": sum(p.numel() * p.element_size() for p in self.model.causal.parameters()),
            # Masters where they lie apart, gradients and both moments.
            "trainable": self.vectors.length * (16 if self.model.compute != torch.float32 and self.ranks.world == 1 else 12),
            "perToken": layers * in_block,
            "perTokenRecompute": layers * size * hidden + in_block,
            "kvPerToken": layers * size * kv,
            "free": free,
            "total": total,
        }

    def call(self, op: str, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
        """Every operation on the compute thread but `sample`, `cancel`, `open` and `close`."""
        run = _OPERATIONS.get(op)
        if run is None:
            raise WorkerError("INVALID_OPTION", f'There is no operation "{op}".')
        return run(self, options, arrays)

    def changed(self) -> int:
        """The weights are others now."""
        self.count += 1
        return self.count

    def tree(self, arrays: dict[str, Tensor]) -> TokenTree:
        return read_tree(arrays, self.model.vocab, self.model.context)

    def opened(self) -> dict[str, Tensor]:
        """What is trained, as the files have it."""
        if self.model.peft is not None:
            return read_adapter(self.options["adapter"], self.masters.names[: self.masters.policy])
        again = load_model({**self.options, "dtype": "f32"}, torch.device("cpu"), 1)
        return {name: p.detach() for name, p in again.trained()}


def _memory() -> tuple[int, int]:
    with open("/proc/meminfo", encoding="ascii") as file:
        lines = dict(line.split(":", 1) for line in file)
    return int(lines["MemAvailable"].split()[0]) << 10, int(lines["MemTotal"].split()[0]) << 10


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
    if options.get("recompute") is None:
        flags["recompute"] = bool(engine.options.get("recompute"))
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
    else:
        from . import storage

        kind, tensors = storage.read_reference(engine, of["from"])
        made = references.keep(kind, None if tensors is None else references.of(tensors))
        named = storage.reference_name(engine, of["from"])
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
    return {"vector": made, "length": engine.vectors.length, "norm": engine.vectors.norm(made)}, {}


def _vector_add(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    engine.vectors.add(options["a"], options["b"], options["scale"])
    return {}, {}


def _vector_scale(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    engine.vectors.scale(options["a"], options["factor"])
    return {}, {}


def _vector_apply(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    engine.shards.end_burst()
    engine.vectors.apply(options["a"], options["scale"])
    return {"count": engine.changed()}, {}


def _vector_release(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
    engine.vectors.release(options["vector"])
    return {}, {}


def _stored(name: str) -> Callable[[Engine, dict[str, Any], dict[str, Tensor]], Result]:
    def run(engine: Engine, options: dict[str, Any], arrays: dict[str, Tensor]) -> Result:
        from . import storage

        engine.shards.end_burst()
        return getattr(storage, name)(engine, options), {}

    return run


_OPERATIONS: dict[str, Callable[[Engine, dict[str, Any], dict[str, Tensor]], Result]] = {
    "forward": _forward,
    "backward": _backward,
    "release": _release,
    "step": _step,
    "zeroGradients": _zero_gradients,
    "addValueHead": _add_value_head,
    "reference": _reference,
    "referenceLogprobs": _reference_logprobs,
    "referenceBlend": _reference_blend,
    "referenceSave": _stored("save_reference"),
    "referenceClose": _reference_close,
    "vector": _vector,
    "vectorDot": lambda engine, options, arrays: ({"dot": engine.vectors.dot(options["a"], options["b"])}, {}),
    "vectorAdd": _vector_add,
    "vectorScale": _vector_scale,
    "vectorCopy": lambda engine, options, arrays: _vector_result(engine, engine.vectors.copy(options["a"])),
    "vectorRead": lambda engine, options, arrays: ({}, {"values": engine.vectors.read(options["a"])}),
    "vectorWrite": lambda engine, options, arrays: _vector_result(engine, engine.vectors.write(arrays["values"])),
    "vectorApply": _vector_apply,
    "vectorRelease": _vector_release,
    "save": _stored("save"),
    "load": _stored("load"),
    "snapshot": _stored("snapshot"),
    "restore": _stored("restore"),
}

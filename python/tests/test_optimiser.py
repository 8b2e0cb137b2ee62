"""AdamW, vectors and references."""

from __future__ import annotations

import math
import unittest

import numpy as np
import torch

from stateset_agents_worker.engine import Engine
from stateset_agents_worker.errors import WorkerError
from tests.models import CONFIGS, LORA, VOCAB, derivatives, make, norm_of, open_engine, spread_lora
from tests.trees import arrays, random_tree

torch.set_num_threads(1)
ADAMW = dict(learningRate=1e-2, beta1=0.9, beta2=0.99, epsilon=1e-6, weightDecay=0.1, clipNorm=1.0)


def learn(engine: Engine, rng: np.random.Generator, *names: str) -> None:
    tree = arrays(random_tree(rng, 4, 6, VOCAB))
    number = engine.call("forward", {n: True for n in names if n != "logprobs"}, tree)[0]["pass"]
    engine.call("backward", {"pass": number}, derivatives(rng, len(tree["tokens"]), *names))


def weights(engine: Engine) -> dict[str, torch.Tensor]:
    return {name: engine.masters.read(name) for name in engine.masters.names}


class OptimiserTest(unittest.TestCase):
    def against_torch(self, lora: dict | None, ratio: float | None, dtype: str = "f32") -> None:
        rng = np.random.default_rng(4)
        engine = open_engine(make(CONFIGS["qwen2"]), lora=lora, dtype=dtype)
        engine.call("addValueHead", {}, {})
        copies = {name: torch.nn.Parameter(w.clone()) for name, w in weights(engine).items()}

        def group(name: str, p: torch.nn.Parameter) -> dict:
            rate = 3e-3 if name.startswith("value.") else 1e-2 * (ratio or 1 if "lora_B" in name else 1)
            return dict(params=[p], lr=rate, weight_decay=0.1 if p.ndim >= 2 else 0.0)

        theirs = torch.optim.AdamW([group(n, p) for n, p in copies.items()], betas=(0.9, 0.99), eps=1e-6)
        for _ in range(10):
            learn(engine, rng, "logprobs", "values")
            for name, gradient in zip(engine.masters.names, engine.masters.gradients()):
                copies[name].grad = gradient.clone()
            norm = torch.nn.utils.clip_grad_norm_(copies.values(), 1.0).item()
            report, _ = engine.call("step", {**ADAMW, "valueLearningRate": 3e-3, "loraPlusRatio": ratio}, {})
            theirs.step()
            self.assertTrue(report["applied"])
            self.assertLess(abs(report["gradNorm"] - norm) / norm, 1e-5)
        self.assertEqual(report["count"], 10)
        for name, weight in weights(engine).items():
            self.assertLess((weight - copies[name]).abs().max().item(), 1e-6, name)

    def test_ten_steps(self) -> None:
        self.against_torch(None, None)
        self.against_torch(LORA, 4.0)

    def test_ten_steps_in_16_bits(self) -> None:
        """The masters move as f32 does, and what computes is their rounding."""
        self.against_torch(None, None, "bf16")
        self.against_torch(LORA, None, "bf16")
        engine = open_engine(make(CONFIGS["llama"]), dtype="bf16")
        learn(engine, np.random.default_rng(1), "logprobs")
        engine.call("step", {"learningRate": 1e-2}, {})
        for name, p in zip(engine.masters.names, engine.masters.parameters):
            self.assertEqual(p.dtype, torch.bfloat16)
            self.assertTrue(torch.equal(p.detach(), engine.masters.read(name).bfloat16()))

    def test_scopes(self) -> None:
        rng = np.random.default_rng(4)
        engine = open_engine(make(CONFIGS["llama"]))
        engine.call("addValueHead", {}, {})
        learn(engine, rng, "logprobs", "values")
        before = weights(engine)
        engine.call("step", {"learningRate": 1e-2, "scope": "value"}, {})
        self.assertEqual(engine.optimiser.steps, [0, 1])
        for name, weight in weights(engine).items():
            self.assertEqual(torch.equal(weight, before[name]), not name.startswith("value."))
        # The policy's gradient is still there, the value head's is spent.
        self.assertGreater(engine.masters.gradients()[0].norm().item(), 0)
        self.assertEqual(engine.masters.gradients()[-1].norm().item(), 0)
        before = weights(engine)
        engine.call("step", {"learningRate": 1e-2, "scope": "policy"}, {})
        self.assertEqual(engine.optimiser.steps, [1, 1])
        for name, weight in weights(engine).items():
            self.assertEqual(torch.equal(weight, before[name]), name.startswith("value."))

    def test_not_finite(self) -> None:
        engine = open_engine(make(CONFIGS["llama"]))
        tree = arrays(random_tree(np.random.default_rng(2), 3, 5, VOCAB))
        number = engine.call("forward", {}, tree)[0]["pass"]
        engine.call("backward", {"pass": number}, {"logprobs": torch.full((len(tree["tokens"]),), math.nan)})
        before = weights(engine)
        report, _ = engine.call("step", {"learningRate": 1e-2}, {})
        self.assertEqual((report["applied"], report["gradNorm"], report["count"]), (False, None, 0))
        self.assertTrue(all(torch.equal(weight, before[name]) for name, weight in weights(engine).items()))
        self.assertEqual(norm_of(engine), 0)

    def test_vectors(self) -> None:
        rng = np.random.default_rng(4)
        engine = open_engine(make(CONFIGS["llama"]), lora=LORA)
        learn(engine, rng, "logprobs")
        g = engine.call("vector", {"of": "gradients"}, {})[0]
        p = engine.call("vector", {"of": "parameters"}, {})[0]["vector"]
        values = engine.call("vectorRead", {"a": g["vector"]}, {})[1]["values"]
        parameters = engine.call("vectorRead", {"a": p}, {})[1]["values"]
        self.assertEqual(g["length"], len(values))
        self.assertAlmostEqual(norm_of(engine), values.double().norm().item(), 5)
        dot = engine.call("vectorDot", {"a": g["vector"], "b": p}, {})[0]["dot"]
        self.assertAlmostEqual(dot, (values.double() @ parameters.double()).item(), 6)
        copy = engine.call("vectorCopy", {"a": g["vector"]}, {})[0]["vector"]
        engine.call("vectorScale", {"a": copy, "factor": 2}, {})
        engine.call("vectorAdd", {"a": copy, "b": p, "scale": -0.5}, {})
        got = engine.call("vectorRead", {"a": copy}, {})[1]["values"]
        self.assertTrue(torch.allclose(got, 2 * values - 0.5 * parameters, atol=1e-6))
        self.assertEqual(engine.call("vectorMove", {"a": copy}, {})[0]["count"], 1)
        moved = engine.call("vectorRead", {"a": engine.call("vector", {"of": "parameters"}, {})[0]["vector"]}, {})[1]["values"]
        self.assertTrue(torch.equal(moved, got))
        engine.call("vectorRelease", {"vector": p}, {})
        with self.assertRaises(WorkerError):
            engine.call("vectorRead", {"a": p}, {})


class ReferencesTest(unittest.TestCase):
    def run_case(self, lora: dict | None, dtype: str) -> None:
        rng = np.random.default_rng(4)
        engine = open_engine(make(CONFIGS["llama"]), lora=lora, dtype=dtype)
        tree = arrays(random_tree(rng, 4, 8, VOCAB))

        def own() -> torch.Tensor:
            return engine.call("forward", {"grad": False}, tree)[1]["logprobs"]

        def of(number: int) -> torch.Tensor:
            return engine.call("referenceLogprobs", {"reference": number}, tree)[1]["logprobs"]

        opened = own()
        if lora:
            spread_lora(engine)
        start = own()
        present = engine.call("reference", {"of": "present"}, {})[0]["reference"]
        for _ in range(3):
            learn(engine, rng, "logprobs")
            engine.call("step", {"learningRate": 1e-2}, {})
        base = engine.call("reference", {"of": "base"}, {})[0]
        self.assertEqual(base["count"], 3)
        moved = own()
        self.assertGreater((moved - start).abs().max().item(), 0.01)
        self.assertTrue(torch.equal(of(present), start))
        # Without its adapter, or from the files: as it was opened.
        self.assertTrue(torch.allclose(of(base["reference"]), opened, atol=1e-6))
        self.assertTrue(torch.equal(own(), moved))
        engine.call("referenceBlend", {"reference": present, "decay": 0.0}, {})
        self.assertTrue(torch.allclose(of(present), moved, atol=1e-6))
        engine.call("referenceBlend", {"reference": base["reference"], "decay": 1.0}, {})
        self.assertTrue(torch.allclose(of(base["reference"]), opened, atol=1e-6))
        engine.call("referenceClose", {"reference": present}, {})
        with self.assertRaises(WorkerError):
            of(present)

    def test_references(self) -> None:
        for lora in (None, LORA):
            for dtype in ("f32", "bf16"):
                with self.subTest(lora=bool(lora), dtype=dtype):
                    self.run_case(lora, dtype)


if __name__ == "__main__":
    unittest.main()

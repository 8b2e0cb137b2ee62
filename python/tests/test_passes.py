"""Passes against plain forwards of transformers, path by path, and their autograd."""

from __future__ import annotations

import gc
import unittest
from unittest import mock

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from stateset_agents_worker import lora
from stateset_agents_worker.engine import Engine
from stateset_agents_worker.errors import WorkerError
from tests.models import CONFIGS, LORA, VOCAB, derivatives, make, open_engine, separately, spread_lora
from tests.trees import arrays, random_tree

torch.set_num_threads(1)


def off(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a - b).norm() / (b.norm() + 1e-12)).item()


def plain_of(engine: Engine, folder: str) -> torch.nn.Module:
    """transformers' and PEFT's own, with the engine's weights."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    model.get_input_embeddings().padding_idx = None
    if engine.model.peft is not None:
        from peft import get_peft_model

        model = get_peft_model(model, engine.model.peft.peft_config["default"]).eval()
        own = {name.replace(".default.", "."): p for name, p in model.named_parameters()}
        with torch.no_grad():
            for name in engine.masters.names[: engine.masters.policy]:
                own[name].copy_(engine.masters.read(name))
    return model


def gradients(engine: Engine) -> dict[str, torch.Tensor]:
    return {name: g.clone() for name, g in zip(engine.masters.names, engine.masters.gradients())}


class PassesTest(unittest.TestCase):
    def compare(self, name: str, options: dict | None, recompute: bool = False, joined: bool = False) -> None:
        rng = np.random.default_rng(7)
        folder = make(CONFIGS[name])
        engine = open_engine(folder, lora=options)
        if options:
            spread_lora(engine)
        if joined:
            lora.join_adapters(engine.model)
        engine.call("addValueHead", {}, {})
        engine.masters.write({"value.weight": torch.randn(1, 48), "value.bias": torch.tensor([0.3])})
        tree = random_tree(rng, nodes=5, longest=6, vocab=VOCAB)
        wants = dict(entropy=True, values=True, hidden=True, temperature=0.8, recompute=recompute)
        result, found = engine.call("forward", wants, arrays(tree))
        model = plain_of(engine, folder)
        logprobs, entropies, hidden = separately(model, tree, 0.8)
        weight, bias = (engine.masters.read(n) for n in ("value.weight", "value.bias"))
        weight.requires_grad_()
        values = (hidden @ weight.t())[:, 0] + bias
        self.assertLess((found["logprobs"] - logprobs).abs().max().item(), 1e-4)
        self.assertLess((found["entropy"] - entropies).abs().max().item(), 1e-4)
        self.assertLess((found["values"] - values).abs().max().item(), 1e-4)
        self.assertLess((found["hidden"].view_as(hidden) - hidden).abs().max().item(), 1e-4)

        given = derivatives(rng, len(tree.tokens), "logprobs", "entropy", "values")
        engine.call("backward", {"pass": result["pass"]}, given)
        (logprobs @ given["logprobs"] + entropies @ given["entropy"] + values @ given["values"]).backward()
        theirs = {n.replace(".default.", "."): p.grad for n, p in model.named_parameters() if p.requires_grad}
        ours = gradients(engine)
        self.assertLess(off(ours.pop("value.weight"), weight.grad), 1e-5)
        self.assertLess(off(ours.pop("value.bias")[0], given["values"].sum()), 1e-5)
        self.assertEqual(ours.keys(), theirs.keys())
        for n, gradient in ours.items():
            self.assertLess(off(gradient, theirs[n]), 2e-5, n)

    def test_full(self) -> None:
        for name in CONFIGS:
            with self.subTest(name):
                self.compare(name, None)

    def test_lora(self) -> None:
        for name in CONFIGS:
            with self.subTest(name):
                self.compare(name, {**LORA, "alphaPattern": {"v_proj": 11, "mlp.c_proj": 2}})

    def test_joined_adapters(self) -> None:
        """As on CUDA, where base and adapter are one product."""
        before = lora.FEWEST_ROWS
        lora.FEWEST_ROWS = 1
        self.addCleanup(setattr, lora, "FEWEST_ROWS", before)
        calls = []
        real = lora._Joined.apply
        for name in ("llama-biased", "qwen3"):
            with mock.patch.object(lora._Joined, "apply", side_effect=lambda *args: (calls.append(1), real(*args))[1]):
                self.compare(name, {**LORA, "alphaPattern": {"v_proj": 11}}, joined=True)
        self.assertEqual(len(calls), 2 * 2 * 7)

    def test_recompute(self) -> None:
        for options in (None, LORA):
            self.compare("mistral", options, recompute=True)

    def test_values_into_the_head_alone(self) -> None:
        rng = np.random.default_rng(3)
        engine = open_engine(make(CONFIGS["qwen3"]))
        engine.call("addValueHead", {}, {})
        engine.masters.write({"value.weight": torch.randn(1, 48)})
        tree = arrays(random_tree(rng, 4, 6, VOCAB))
        count = len(tree["tokens"])
        given = derivatives(rng, count, "logprobs", "values")

        def run(options: dict, *names: str) -> dict[str, torch.Tensor]:
            engine.call("zeroGradients", {}, {})
            number = engine.call("forward", {"values": True}, tree)[0]["pass"]
            engine.call("backward", {"pass": number, **options}, {n: given[n] for n in names})
            return gradients(engine)

        policy, both = run({}, "logprobs"), run({"valuesIntoTrunk": False}, "logprobs", "values")
        alone, into = run({"valuesIntoTrunk": False}, "values"), run({}, "values")
        for name in policy:
            if name.startswith("value."):
                self.assertTrue(torch.equal(both[name], alone[name]))
                self.assertTrue(torch.equal(both[name], into[name]))
                self.assertGreater(both[name].norm().item(), 0)
            else:
                self.assertTrue(torch.equal(both[name], policy[name]))
                self.assertEqual(alone[name].norm().item(), 0)
        self.assertGreater(into["model.norm.weight"].norm().item(), 0)

    def test_any_order(self) -> None:
        """Interleaved passes add up to what one after the other does."""
        rng = np.random.default_rng(11)
        for options, recompute in ((None, False), (LORA, True)):
            engine = open_engine(make(CONFIGS["qwen2"]), lora=options)
            trees = [arrays(random_tree(rng, 4, 6, VOCAB)) for _ in range(5)]
            given = [derivatives(rng, len(tree["tokens"]), "logprobs") for tree in trees]
            for tree, d in zip(trees, given):
                number = engine.call("forward", {}, tree)[0]["pass"]
                engine.call("backward", {"pass": number}, d)
            serial = gradients(engine)
            engine.call("zeroGradients", {}, {})
            reference = engine.call("reference", {"of": "base" if options else "present"}, {})[0]["reference"]
            numbers = []
            for tree in trees[:3]:
                numbers.append(engine.call("forward", {"recompute": recompute}, tree)[0]["pass"])
            engine.call("backward", {"pass": numbers[1]}, given[1])
            engine.call("referenceLogprobs", {"reference": reference}, trees[0])
            dropped = engine.call("forward", {}, trees[0])[0]["pass"]
            numbers.append(engine.call("forward", {}, trees[3])[0]["pass"])
            engine.call("backward", {"pass": numbers[3]}, given[3])
            engine.call("release", {"pass": dropped}, {})
            engine.call("forward", {"grad": False}, trees[2])
            engine.call("backward", {"pass": numbers[0]}, given[0])
            numbers.append(engine.call("forward", {"recompute": recompute}, trees[4])[0]["pass"])
            engine.call("backward", {"pass": numbers[4]}, given[4])
            engine.call("backward", {"pass": numbers[2]}, given[2])
            for name, gradient in gradients(engine).items():
                self.assertLess(off(gradient, serial[name]), 1e-5, name)
            self.assertEqual(len(engine.passes), 0)

    def test_frees_what_is_released(self) -> None:
        rng = np.random.default_rng(5)
        engine = open_engine(make(CONFIGS["llama"]))
        tree = arrays(random_tree(rng, 6, 20, VOCAB))
        given = derivatives(rng, len(tree["tokens"]), "logprobs")

        def tensors() -> int:
            return sum(1 for thing in gc.get_objects() if type(thing) is torch.Tensor)

        gc.collect()
        gc.disable()
        self.addCleanup(gc.enable)
        counts = []
        for number in range(100):
            made = engine.call("forward", {"entropy": number % 2 == 0, "recompute": number % 3 == 0}, tree)[0]["pass"]
            if number % 4 == 0:
                engine.call("release", {"pass": made}, {})
            else:
                engine.call("backward", {"pass": made}, given)
            if number % 20 == 19:
                counts.append(tensors())
        # The collector was off: nothing waits for it in a cycle.
        self.assertEqual(counts[0], counts[-1])
        self.assertEqual(len(engine.passes), 0)

    def test_compiles_small_sizes_once_they_are_used_often_and_large_ones_at_once(self) -> None:
        passes = open_engine(make(CONFIGS["llama"])).passes
        used = [passes.pays(512, True) for _ in range(260)]
        self.assertEqual(used, [False] * 256 + [True] * 4)
        self.assertEqual([passes.pays(512, False), passes.pays(768, True), passes.pays(8192, True)], [False, False, True])

    def test_refuses(self) -> None:
        rng = np.random.default_rng(5)
        engine = open_engine(make(CONFIGS["llama"]))
        tree = arrays(random_tree(rng, 2, 4, VOCAB))
        count = len(tree["tokens"])
        number = engine.call("forward", {}, tree)[0]["pass"]
        for op, options, given in [
            ("forward", {"values": True}, tree),
            ("forward", {"temperature": 0}, tree),
            ("backward", {"pass": 99}, {}),
            ("backward", {"pass": number}, {"logprobs": torch.zeros(count + 1)}),
            ("backward", {"pass": number}, {"entropy": torch.zeros(count)}),
            ("step", {"learningRate": -1}, {}),
            ("step", {"learningRate": 1, "loraPlusRatio": 2}, {}),
            ("nonsense", {}, {}),
        ]:
            with self.assertRaises(WorkerError) as caught:
                engine.call(op, options, given)
            self.assertEqual(caught.exception.code, "INVALID_OPTION")
        engine.call("step", {"learningRate": 1e-3}, {})
        with self.assertRaisesRegex(WorkerError, "changed since"):
            engine.call("backward", {"pass": number}, {"logprobs": torch.zeros(count)})


if __name__ == "__main__":
    unittest.main()

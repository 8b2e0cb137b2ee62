"""What is loaded, and what is refused."""

from __future__ import annotations

import os
import unittest
import unittest.mock
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from torch._dynamo.utils import counters
from transformers import AutoConfig, AutoModelForCausalLM, BloomConfig, Gemma2Config, MambaConfig, Qwen3Config

from stateset_agents_worker import lora
from stateset_agents_worker.errors import WorkerError
from stateset_agents_worker.scorer import Blocks
from tests.models import CONFIGS, LORA, VOCAB, derivatives, folder, make, norm_of, open_engine, separately
from tests.trees import arrays, random_tree

torch.set_num_threads(1)


def adapter_of(model: str, **changes: Any) -> str:
    """As PEFT writes it, with B no longer zero."""
    made = folder()
    base = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    adapted = get_peft_model(base, LoraConfig(r=3, lora_alpha=5, target_modules="all-linear", task_type="CAUSAL_LM", **changes))
    with torch.no_grad():
        for name, p in adapted.named_parameters():
            if "lora_B" in name:
                p.normal_(0, 0.1)
    adapted.save_pretrained(made)
    return made


class LoadTest(unittest.TestCase):
    def test_an_adapter_is_what_peft_makes_of_it(self) -> None:
        for name, changes in (("qwen3", dict(use_rslora=True, alpha_pattern={"v_proj": 11})), ("gpt2", dict(fan_in_fan_out=True, rank_pattern={"attn.c_attn": 9}))):
            model = make(CONFIGS[name])
            adapter = adapter_of(model, **changes)
            engine = open_engine(model, adapter=adapter)
            tree = random_tree(np.random.default_rng(1), 5, 6, VOCAB)
            theirs = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32), adapter).eval()
            with torch.no_grad():
                logprobs, _, _ = separately(theirs, tree)
            ours = engine.call("forward", {"grad": False}, arrays(tree))[1]["logprobs"]
            self.assertLess((ours - logprobs).abs().max().item(), 1e-5)
            self.assertEqual(set(engine.masters.names), set(load_file(os.path.join(adapter, "adapter_model.safetensors"))))

    def test_a_new_adapter_comes_from_the_seed_and_does_nothing(self) -> None:
        model = make(CONFIGS["llama"])
        plain, one, same, other = (open_engine(model, lora=adapter, seed=seed) for adapter, seed in ((None, 1), (LORA, 1), (LORA, 1), (LORA, 2)))
        tree = arrays(random_tree(np.random.default_rng(1), 5, 6, VOCAB))
        scores = [engine.call("forward", {"grad": False}, tree)[1]["logprobs"] for engine in (plain, one)]
        self.assertTrue(torch.equal(*scores))
        first = one.masters.names[0]
        self.assertTrue(torch.equal(one.masters.read(first), same.masters.read(first)))
        self.assertFalse(torch.equal(one.masters.read(first), other.masters.read(first)))
        self.assertEqual(one.digest, same.digest)
        self.assertEqual(len({engine.digest for engine in (plain, one, other)}), 3)
        # Of a base that was rounded, and so not to be compared with one that was not.
        self.assertRegex(open_engine(model, lora=LORA, seed=1, dtype="bf16").digest, r"^[0-9a-f]{64}-bf16$")

    def test_dropout_is_drawn_anew_and_recomputed_the_same(self) -> None:
        rng = np.random.default_rng(1)
        engine = open_engine(make(CONFIGS["llama"]), adapter=None, lora={**LORA, "dropout": 0.5})
        engine.masters.write({name: torch.randn(engine.masters.read(name).shape) for name in engine.masters.names})
        tree = arrays(random_tree(rng, 5, 6, VOCAB))
        given = derivatives(rng, len(tree["tokens"]), "logprobs")
        found = []
        for recompute in (False, True):
            engine.passes.dropout_passes = 3
            result, got = engine.call("forward", {"recompute": recompute}, tree)
            engine.call("backward", {"pass": result["pass"]}, given)
            found.append((got["logprobs"], norm_of(engine)))
            engine.call("zeroGradients", {}, {})
        self.assertTrue(torch.equal(found[0][0], found[1][0]))
        self.assertAlmostEqual(found[0][1] / found[1][1], 1.0, 5)
        self.assertEqual(engine.passes.dropout_passes, 4)
        self.assertFalse(torch.equal(engine.call("forward", {}, tree)[1]["logprobs"], found[0][0]))
        still = [engine.call("forward", {"grad": False}, tree)[1]["logprobs"] for _ in range(2)]
        self.assertTrue(torch.equal(*still))

    def test_info(self) -> None:
        engine = open_engine(make(Qwen3Config(**{**CONFIGS["qwen3"].to_dict(), "max_position_embeddings": 99})), lora=LORA)
        info = engine.info()
        self.assertEqual((info["architecture"], info["layers"], info["vocabSize"], info["contextLength"]), ("qwen3", 2, VOCAB, 99))
        self.assertEqual(info["trainableParameters"], sum(engine.masters.read(name).numel() for name in engine.masters.names))
        named = engine.model.causal.named_parameters()
        self.assertEqual(info["parameters"], sum(p.numel() for name, p in named if "lora_" not in name))
        with self.assertRaises(WorkerError) as caught:
            engine.call("forward", {}, arrays(random_tree(np.random.default_rng(1), 3, 100, VOCAB, roots=1, shuffled=False)))
        self.assertEqual(caught.exception.code, "CONTEXT_OVERFLOW")

    def test_refuses_what_it_would_compute_wrongly(self) -> None:
        shape = dict(
            vocab_size=VOCAB, hidden_size=48, intermediate_size=88, num_hidden_layers=2, num_attention_heads=4, bos_token_id=1, eos_token_id=2
        )
        for config in (
            Gemma2Config(**shape, num_key_value_heads=2, head_dim=12),
            BloomConfig(vocab_size=VOCAB, hidden_size=48, n_layer=2, n_head=4),
            MambaConfig(vocab_size=VOCAB, hidden_size=48, num_hidden_layers=2),
        ):
            with self.subTest(config.model_type), self.assertRaises(WorkerError) as caught:
                open_engine(make(config))
            self.assertEqual(caught.exception.code, "MODEL_UNSUPPORTED")

    def test_refuses_by_name(self) -> None:
        model = make(CONFIGS["llama"])
        broken = make(CONFIGS["llama"])
        weights = os.path.join(broken, "model.safetensors")
        save_file({k: v for k, v in load_file(weights).items() if "layers.1.mlp.up" not in k}, weights, {"format": "pt"})
        damaged = make(CONFIGS["llama"])
        with open(os.path.join(damaged, "model.safetensors"), "r+b") as file:
            file.truncate(1000)
        larger = make(CONFIGS["llama"])
        AutoConfig.from_pretrained(larger, vocab_size=2 * VOCAB).save_pretrained(larger)
        for options, code, said in [
            (dict(model=folder()), "MODEL_NOT_FOUND", "config.json"),
            (dict(model=broken), "MODEL_INVALID", "up_proj"),
            (dict(model=damaged), "MODEL_INVALID", damaged),
            (dict(model=larger), "MODEL_INVALID", "have in another shape model.embed_tokens.weight"),
            (dict(quantise="nf4", lora=LORA), "MODEL_UNSUPPORTED", "CUDA"),
            (dict(quantise="int3"), "INVALID_OPTION", "int3"),
            (dict(dtype="f8"), "INVALID_OPTION", "f8"),
            (dict(lora={**LORA, "targetModules": ["q_proj", "nonsense"]}), "INVALID_OPTION", "nonsense"),
            (dict(lora={**LORA, "targetModules": ["lm_head"]}), "INVALID_OPTION", "lm_head"),
            (dict(adapter=folder()), "MODEL_INVALID", "adapter_config.json"),
            (dict(adapter=adapter_of(make(CONFIGS["llama-biased"]), modules_to_save=["norm"])), "MODEL_UNSUPPORTED", "more than LoRA"),
            (dict(adapter=adapter_of(make(CONFIGS["gpt2"]), fan_in_fan_out=True)), "MODEL_INVALID", "lora"),
        ]:
            with self.subTest(code=code, said=said), self.assertRaises(WorkerError) as caught:
                open_engine(**{"model": model, **options})
            self.assertEqual(caught.exception.code, code)
            self.assertIn(said, caught.exception.message)
            if said == "nonsense":
                self.assertIn("down_proj, gate_proj, k_proj", str(caught.exception.hint))
        # No fault of the model's.
        with unittest.mock.patch("transformers.AutoModelForCausalLM.from_pretrained", side_effect=MemoryError), self.assertRaises(MemoryError):
            open_engine(model)


class CompileTest(unittest.TestCase):
    def test_one_program_for_all_layers_and_passes(self) -> None:
        """Traced, not compiled: no pass may be a program of its own, and nothing may break one in two."""
        real = torch.compile
        torch.compile = partial(real, backend="eager")  # type: ignore[assignment]
        self.addCleanup(setattr, torch, "compile", real)
        self.addCleanup(setattr, lora, "FEWEST_ROWS", lora.FEWEST_ROWS)
        lora.FEWEST_ROWS = 1
        rng = np.random.default_rng(1)
        for options, joined in ((None, False), (LORA, False), (LORA, True)):
            model = make(CONFIGS["mistral"])
            plain = open_engine(model, lora=options)
            with unittest.mock.patch("stateset_agents_worker.engine.Blocks", lambda model, compiled: Blocks(model, True)):
                engine = open_engine(model, lora=options)
            if joined:
                lora.join_adapters(engine.model)
            torch._dynamo.reset()
            counters.clear()
            # Of one size, as padding makes them on CUDA.
            drawn = (arrays(random_tree(rng, 5, 9, VOCAB)) for _ in range(10_000))
            trees = list(islice((tree for tree in drawn if len(tree["tokens"]) == 25), 3))
            for number in range(3):
                tree = trees[number]
                given = derivatives(rng, len(tree["tokens"]), "logprobs")
                found = []
                for one in (engine, plain):
                    result, got = one.call("forward", {"recompute": number == 2}, tree)
                    one.call("backward", {"pass": result["pass"]}, given)
                    found.append((got["logprobs"], norm_of(one)))
                    one.call("step", {"learningRate": 1e-2}, {})
                self.assertTrue(torch.allclose(found[0][0], found[1][0], atol=1e-5))
                self.assertAlmostEqual(found[0][1] / found[1][1], 1.0, 4)
            self.assertTrue(engine.blocks.compiled)
            # The first block's input needs no gradient under an adapter: that is a program more.
            self.assertLessEqual(counters["stats"]["unique_graphs"], 4 if joined else 2)
            self.assertEqual(sum(counters["graph_break"].values()), 0)


if __name__ == "__main__":
    unittest.main()

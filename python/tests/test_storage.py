"""Files and back: snapshots, saved models and adapters, references."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import unittest
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from stateset_agents_worker import snapshots
from stateset_agents_worker.engine import Engine
from stateset_agents_worker.errors import WorkerError
from stateset_agents_worker.tensor_files import Entry, deal_shards
from tests.models import CONFIGS, LORA, folder, make, open_engine, spread_lora
from tests.storage_scenario import learn
from tests.trees import arrays, random_tree
from tests.two_ranks import run_two_ranks

torch.set_num_threads(1)
DROPPED = {**LORA, "dropout": 0.2}


def tensors_in(place: str, stem: str = "policy") -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = {}
    for name in sorted(os.listdir(place)):
        if name.startswith(stem) and name.endswith(".safetensors"):
            found.update(load_file(os.path.join(place, name)))
    return found


def state_in(place: str) -> dict[str, Any]:
    with open(os.path.join(place, "policy.json"), encoding="utf-8") as file:
        return json.load(file)


def rewrite(place: str, **changes: Any) -> None:
    changed = {**state_in(place), **changes}
    with open(os.path.join(place, "policy.json"), "w", encoding="utf-8") as file:
        json.dump(changed, file)


def everything(engine: Engine) -> dict[str, torch.Tensor]:
    masters = engine.masters
    found = {name: masters.read(name) for name in masters.names}
    for index, both in engine.optimiser.moments.items():
        for end, moment in zip((":m", ":v"), both):
            found[f"{masters.names[index]}{end}"] = masters.whole(index, moment)
    return found


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.arange(3, 20)[None]).logits


class StorageTest(unittest.TestCase):
    def same(self, a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
        self.assertEqual(sorted(a), sorted(b))
        for name in a:
            self.assertTrue(torch.equal(a[name], b[name]), name)

    def refused(self, code: str, text: str, work: Any) -> None:
        with self.assertRaises(WorkerError) as caught:
            work()
        self.assertEqual(caught.exception.code, code, caught.exception.message)
        self.assertRegex(caught.exception.message, text)

    def test_goes_on_from_a_snapshot(self) -> None:
        for name, lora, dtype in (("gpt2", None, "f32"), ("qwen3", None, "bf16"), ("mistral", DROPPED, "f32")):
            with self.subTest(name, lora=lora, dtype=dtype):
                model = make(CONFIGS[name])
                policy, other = (open_engine(model, lora=lora, dtype=dtype) for _ in range(2))
                policy.call("addValueHead", {}, {})
                learn(policy, 1)
                learn(policy, 2, "value")
                # Gradients are no part of it.
                policy.call("zeroGradients", {}, {})
                place = folder()
                report = snapshots.snapshot(policy, {"dir": place, "version": "a name"}, most=20_000)
                self.assertGreater(len(report["files"]), 3)
                for stored in report["files"]:
                    with open(os.path.join(place, stored["file"]), "rb") as file:
                        content = file.read()
                    self.assertEqual((stored["bytes"], stored["sha256"]), (len(content), hashlib.sha256(content).hexdigest()))
                self.assertEqual(sorted(os.listdir(place)), sorted(stored["file"] for stored in report["files"]))
                self.same(tensors_in(place), everything(policy))
                learn(other, 7)
                result = other.call("restore", {"dir": place}, {})[0]
                self.assertEqual((result["version"], result["valueHead"], result["count"]), ("a name", True, other.count))
                self.assertEqual(other.optimiser.steps, [1, 2])
                for each in (policy, other):
                    learn(each, 3)
                self.same(everything(other), everything(policy))
                self.assertEqual(other.passes.dropout_passes, policy.passes.dropout_passes)

    def test_snapshot_before_the_first_step_and_over_another(self) -> None:
        policy = open_engine(make(CONFIGS["qwen2"]))
        place = folder()
        snapshots.snapshot(policy, {"dir": place, "version": "v"}, most=20_000)
        policy.call("snapshot", {"dir": place, "version": "v"}, {})
        self.assertEqual(sorted(os.listdir(place)), ["policy-00001-of-00001.safetensors", "policy.json"])
        stored = tensors_in(place)
        self.assertEqual(len(stored), 3 * len(policy.masters.names))
        self.assertFalse(any(stored[name].any() for name in stored if name[-2:] in (":m", ":v")))

    def test_refuses_snapshots(self) -> None:
        model = make(CONFIGS["gpt2"])
        policy = open_engine(model, lora=LORA)
        place = folder()
        policy.call("snapshot", {"dir": place, "version": "v"}, {})
        restore = lambda engine, at=place: engine.call("restore", {"dir": at}, {})  # noqa: E731
        self.refused("CHECKPOINT_NOT_FOUND", "no policy.json", lambda: restore(policy, folder()))
        self.refused("CHECKPOINT_MISMATCH", "has an adapter", lambda: restore(open_engine(model)))
        self.refused("CHECKPOINT_MISMATCH", "alpha of its adapter is 5, here 9", lambda: restore(open_engine(model, lora={**LORA, "alpha": 9})))
        self.refused("CHECKPOINT_MISMATCH", "it is a gpt2", lambda: restore(open_engine(make(CONFIGS["qwen2"]), lora=LORA)))
        before = everything(policy)
        stored = os.path.join(place, "policy-00001-of-00001.safetensors")
        good, state = load_file(stored), state_in(place)

        def write(**changes: torch.Tensor) -> None:
            save_file({**good, **changes}, stored)
            rewrite(place, shards=[{**state["shards"][0], "bytes": os.path.getsize(stored)}])

        name = "base_model.model.transformer.h.1.mlp.c_fc.lora_B.weight"
        write(**{f"{name}:v": torch.full_like(good[name], torch.nan)})
        self.refused("CHECKPOINT_INVALID", "not finite", lambda: restore(policy))
        write(**{f"{name}:v": torch.zeros(3)})
        self.refused("CHECKPOINT_INVALID", "c_fc.lora_B.weight:v, or has it in another size", lambda: restore(policy))
        write()
        absent = {"file": "policy-00002-of-00002.safetensors"}
        for change, text in (({"bytes": 12}, "instead of 12"), (absent, "is not there"), ({"file": "../x"}, "shards")):
            rewrite(place, shards=[{**state["shards"][0], **change}])
            self.refused("CHECKPOINT_INVALID", text, lambda: restore(policy))
        rewrite(place, **{**state, "engine": "native"})
        self.refused("CHECKPOINT_MISMATCH", "each of the q, k and v of transformer.h.0.attn.c_attn", lambda: restore(policy))
        rewrite(place, **{**state, "format": "stateset-agents policy snapshot 2"})
        self.refused("CHECKPOINT_INVALID", "names of the embedded engine", lambda: restore(policy))
        self.same(everything(policy), before)
        self.assertEqual(policy.count, 0)

    def test_saves_what_transformers_loads_and_loads_it(self) -> None:
        for name in ("gpt2", "qwen3", "llama"):
            with self.subTest(name):
                model = make(CONFIGS[name])
                policy, other = open_engine(model), open_engine(model)
                policy.call("addValueHead", {}, {})
                learn(policy, 1)
                place, rounded = folder(), folder()
                policy.call("save", {"dir": place, "dtype": "f32"}, {})
                loaded, report = AutoModelForCausalLM.from_pretrained(place, output_loading_info=True)
                self.assertFalse(report["missing_keys"] or report["unexpected_keys"])
                self.assertEqual(loaded.dtype, torch.float32)
                for key, value in loaded.named_parameters():
                    self.assertTrue(torch.equal(value, policy.masters.read(key)), key)
                policy.call("save", {"dir": rounded, "dtype": "bf16"}, {})
                bf16 = AutoModelForCausalLM.from_pretrained(rounded)
                self.assertEqual(bf16.dtype, torch.bfloat16)
                for key, value in bf16.named_parameters():
                    self.assertTrue(torch.equal(value, policy.masters.read(key).bfloat16()), key)
                learn(other, 5)
                result = other.call("load", {"dir": place}, {})[0]
                self.assertEqual((result["valueHead"], result["digest"]), (True, open_engine(place).digest))
                self.same({n: other.masters.read(n) for n in other.masters.names}, {n: policy.masters.read(n) for n in policy.masters.names})
                self.assertEqual((other.optimiser.steps, other.optimiser.moments), ([0, 0], {}))

    def test_loads_other_layouts_and_keeps_a_head_that_they_lack(self) -> None:
        model = make(CONFIGS["gpt2"])
        policy = open_engine(model)
        policy.call("addValueHead", {}, {})
        learn(policy, 1)
        head = {name: both.clone() for name, both in everything(policy).items() if name.startswith("value.")}
        bare = folder()
        shutil.copy(os.path.join(model, "config.json"), bare)
        plain = load_file(os.path.join(model, "model.safetensors"))
        save_file({name.removeprefix("transformer."): t for name, t in plain.items()}, os.path.join(bare, "model.safetensors"), {"format": "pt"})
        policy.call("load", {"dir": bare}, {})
        now = everything(policy)
        self.same({name: now[name] for name in head}, head)
        self.assertEqual((policy.optimiser.steps, set(name for name in now if ":" in name)), ([0, 1], {name for name in head if ":" in name}))
        for name, tensor in plain.items():
            self.assertTrue(torch.equal(now[name], tensor), name)
        self.refused("MODEL_NOT_FOUND", "no weights", lambda: policy.call("load", {"dir": folder()}, {}))
        self.refused("CHECKPOINT_MISMATCH", "another shape", lambda: policy.call("load", {"dir": make(CONFIGS["qwen2"])}, {}))
        self.refused("INVALID_OPTION", "whole weights", lambda: open_engine(model, lora=LORA).call("load", {"dir": model}, {}))

    def test_adapters_for_peft_and_merged(self) -> None:
        from peft import PeftModel

        for name, dtype in (("gpt2", "f32"), ("llama", "f32"), ("qwen3", "bf16")):
            with self.subTest(name, dtype=dtype):
                model = make(CONFIGS[name])
                lora = {**LORA, "alphaPattern": {"mlp.c_fc" if name == "gpt2" else "mlp.up_proj": 7}}
                policy = open_engine(model, lora=lora, dtype=dtype)
                spread_lora(policy)
                learn(policy, 1)
                place, merged = folder(), folder()
                policy.call("save", {"dir": place, "base": model}, {})
                adapted = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model), place)
                policy.call("save", {"dir": merged, "merge": True}, {})
                whole, report = AutoModelForCausalLM.from_pretrained(merged, output_loading_info=True)
                self.assertFalse(report["missing_keys"] or report["unexpected_keys"])
                self.assertLess((logits(whole) - logits(adapted)).abs().max().item(), 1e-4)
                self.assertGreater((logits(whole) - logits(AutoModelForCausalLM.from_pretrained(model))).abs().max().item(), 0.1)
                again = open_engine(model, adapter=place, dtype=dtype)
                self.same({n: again.masters.read(n) for n in again.masters.names}, {n: policy.masters.read(n) for n in policy.masters.names})
                snapshot = folder()
                again.call("snapshot", {"dir": snapshot, "version": "v"}, {})
                self.assertEqual({**state_in(snapshot)["lora"], "targetModules": "all-linear"}, lora)
                other = open_engine(model, lora=lora, dtype=dtype)
                other.call("load", {"dir": place}, {})
                self.same({n: other.masters.read(n) for n in other.masters.names}, {n: policy.masters.read(n) for n in policy.masters.names})
                self.refused("CHECKPOINT_MISMATCH", "is an adapter with", lambda: open_engine(model, lora=LORA).call("load", {"dir": place}, {}))

    def test_references(self) -> None:
        tree = arrays(random_tree(np.random.default_rng(3), 4, 6, 64))
        for lora in (None, LORA):
            with self.subTest(lora=lora):
                model = make(CONFIGS["qwen2"])
                policy, other = open_engine(model, lora=lora), open_engine(model, lora=lora)
                learn(policy, 1)
                scores = lambda engine, number: engine.call("referenceLogprobs", {"reference": number}, tree)[1]["logprobs"]  # noqa: E731
                for of, source in (("present", "own"), ("base", "base" if lora else "opened")):
                    made = policy.call("reference", {"of": of}, {})[0]["reference"]
                    place = folder()
                    version = policy.digest[:12] if source == "opened" else "v"
                    files = policy.call("referenceSave", {"reference": made, "dir": place, "version": version}, {})[0]["files"]
                    with open(os.path.join(place, "reference.json"), encoding="utf-8") as file:
                        self.assertEqual(json.load(file)["source"], source)
                    self.assertEqual(len(files), 2 if source == "own" else 1)
                    again = other.call("reference", {"of": {"from": place}}, {})[0]
                    self.assertEqual(again["version"], version)
                    self.assertTrue(torch.equal(scores(other, again["reference"]), scores(policy, made)))
                begun = open_engine(model, lora=lora)
                made, place = begun.call("reference", {"of": "present"}, {})[0]["reference"], folder()
                begun.call("referenceSave", {"reference": made, "dir": place, "version": begun.digest[:12]}, {})
                # What the files have is not written again.
                self.assertEqual(len(os.listdir(place)), 2 if lora else 1)
                if lora is None:
                    stranger = open_engine(make(CONFIGS["qwen2"], seed=2))
                    self.refused("CHECKPOINT_MISMATCH", "what its policy was opened", lambda: stranger.call("reference", {"of": {"from": place}}, {}))
                place, saved = folder(), folder()
                policy.call("snapshot", {"dir": place, "version": "v"}, {})
                policy.call("save", {"dir": saved, "base": model}, {})
                present = policy.call("reference", {"of": "present"}, {})[0]["reference"]
                names = set()
                for at in (place, saved):
                    again = other.call("reference", {"of": {"from": at}}, {})[0]
                    names.add(again["digest"])
                    self.assertTrue(torch.equal(scores(other, again["reference"]), scores(policy, present)))
                self.assertEqual(len(names), 1)

    def test_deals_tensors_to_ranks(self) -> None:
        sizes = [5, 90, 3, 30, 30, 7, 1, 60]
        entries = [Entry(f"t{i}", (size,), lambda mine: None) for i, size in enumerate(sizes)]
        shards = deal_shards(entries, 2, 200)
        self.assertEqual([entry.name for _, shard in shards for entry in shard], [entry.name for entry in entries])
        self.assertEqual(sorted({rank for rank, _ in shards}), [0, 1])
        for _, shard in shards:
            self.assertTrue(len(shard) == 1 or sum(entry.bytes for entry in shard) <= 200)

    def test_two_ranks_write_what_one_does(self) -> None:
        cases, alone = [], []
        for name, lora in (("qwen3", None), ("mistral", LORA)):
            model, options = make(CONFIGS[name]), {"lora": lora}
            single, begin = open_engine(model, **options), folder()
            single.call("addValueHead", {}, {})
            learn(single, 1)
            single.call("snapshot", {"dir": begin, "version": "v1"}, {})
            learn(single, 2)
            alone.append(single)
            cases += [[model, options, None, folder()], [model, options, begin, folder()]]
        run_two_ranks("tests.storage_scenario", json.dumps(cases))
        for number, (model, options, begin, out) in enumerate(cases):
            single = alone[number // 2]
            at = lambda name, out=out: os.path.join(out, name)  # noqa: E731
            if begin is not None:
                # To two ranks and back to one, bit for bit.
                self.same(tensors_in(at("snapshot")), tensors_in(begin))
            self.assertGreater(len(state_in(at("snapshot"))["shards"]), 2)
            found, expected = tensors_in(at("later")), everything(single)
            self.assertEqual(sorted(found), sorted(expected))
            for name, tensor in expected.items():
                self.assertLess((found[name] - tensor).norm().item(), 1e-5 * max(1.0, tensor.norm().item()), name)
            again = open_engine(model, **options)
            again.call("restore", {"dir": at("later")}, {})
            self.same(everything(again), found)
            self.same(tensors_in(at("reference"), "reference"), {n: found[n] for n in again.masters.names if not n.startswith("value.")})
            snapshot = tensors_in(at("snapshot"))
            saved = tensors_in(at("saved"), "adapter_model" if options["lora"] else "model")
            self.same(saved, {name: snapshot[name] for name in saved})
            AutoModelForCausalLM.from_pretrained(at("loaded"))
            if not options["lora"]:
                self.same(tensors_in(at("loaded"), "model"), saved)
            self.assertFalse([name for name in os.listdir(out) if name == "blocked" and os.path.exists(at("blocked/policy.json"))])
            # load() began the optimiser anew.
            self.assertFalse(any(t.any() for name, t in tensors_in(at("after")).items() if name.endswith(":m") and not name.startswith("value.")))


if __name__ == "__main__":
    unittest.main()

"""
What no machine of CI can run: `python -m tests.on_cuda [correct] [speed]` on one with a GPU. Prints one line for each check.

correct: passes, steps, references and sampling on CUDA against the CPU in f32; compiled blocks, FlexAttention, joined adapters, recompute.
speed: tokens a second of forward + backward on random models of Qwen3's shapes, and what memory they took.
"""

from __future__ import annotations

import gc
import sys
import time
from itertools import islice
from typing import Any

import numpy as np
import torch
from transformers import MistralConfig, Qwen3Config

from stateset_agents_worker import passes
from stateset_agents_worker.engine import Engine
from stateset_agents_worker.ranks import Ranks
from stateset_agents_worker.tree import TokenTree, padded
from tests.models import LORA, derivatives, make, open_engine, spread_lora
from tests.trees import arrays, random_tree

# What is compiled is what is looked at.
passes.PAYS_AFTER = 0

CUDA = Ranks(1, 0, torch.device("cuda", 0))
SHAPE = dict(vocab_size=1000, hidden_size=128, intermediate_size=256, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=32)


def tokens_of(roots: int, each: int, vocab: int) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(1)
    starts = np.arange(roots + 1) * each
    return arrays(TokenTree(rng.integers(0, vocab, roots * each), starts, np.full(roots, -1), np.ones(roots * each, bool)))


def shared(prompts: int, replies: int, prompt: int, reply: int, vocab: int) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(1)
    lengths, parents = [], []
    for _ in range(prompts):
        root = len(lengths)
        lengths += [prompt] + [reply] * replies
        parents += [-1] + [root] * replies
    start = np.concatenate([[0], np.cumsum(lengths)])
    wanted = np.repeat(np.array(parents) >= 0, lengths)
    return arrays(TokenTree(rng.integers(0, vocab, start[-1]), start, np.array(parents), wanted))


def numbers(engine: Engine, tree: dict[str, torch.Tensor], recompute: bool) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    engine.call("zeroGradients", {}, {})
    result, found = engine.call("forward", {"entropy": True, "values": True, "temperature": 0.9, "recompute": recompute}, tree)
    other = engine.call("forward", {}, tree)[0]["pass"]
    given = derivatives(np.random.default_rng(3), len(tree["tokens"]), "logprobs", "entropy", "values")
    engine.call("backward", {"pass": result["pass"]}, given)
    engine.call("backward", {"pass": other}, {"logprobs": given["logprobs"]})
    vector = engine.call("vector", {"of": "gradients"}, {})[0]["vector"]
    return found, engine.call("vectorRead", {"a": vector}, {})[1]["values"]


def off(a: torch.Tensor, b: torch.Tensor) -> float:
    return ((a - b).norm() / b.norm()).item()


def correct() -> None:
    """Every case is a program of its own, compiled in seconds: few cases, and trees of one size."""
    rng = np.random.default_rng(2)
    drawn = (arrays(random_tree(rng, 12, 300, 1000)) for _ in range(1000))
    trees = list(islice((tree for tree in drawn if padded(len(tree["tokens"])) == 2048), 3))
    qwen3 = make(Qwen3Config(**SHAPE, initializer_range=0.1))
    mistral = make(MistralConfig(**SHAPE, sliding_window=100, initializer_range=0.1))
    rank8 = {**LORA, "rank": 8}
    for model, lora, dtype in ((qwen3, None, "f32"), (qwen3, None, "bf16"), (qwen3, rank8, "f32"), (qwen3, rank8, "bf16"), (mistral, None, "f32")):
        cpu, cuda = open_engine(model, lora=lora, dtype="f32"), open_engine(model, CUDA, lora=lora, dtype=dtype)
        for engine in (cpu, cuda):
            if lora:
                spread_lora(engine)
            engine.call("addValueHead", {}, {})
            engine.masters.write({"value.weight": torch.ones(1, 128) / 30})
        for recompute in (False, True):
            compared(trees, cuda, cpu, recompute)
        # An ε at which rounding decides no direction of a first move.
        options = {"learningRate": 1e-3, "clipNorm": 1.0, "epsilon": 1e-3}
        norms = [engine.call("step", options, {})[0]["gradNorm"] for engine in (cuda, cpu)]
        print(f"a step: norms {norms[0]:.6g} {norms[1]:.6g}; then")
        compared(trees[:1], cuda, cpu, False)


def compared(trees: list[dict[str, torch.Tensor]], cuda: Engine, cpu: Engine, recompute: bool) -> None:
    worst = [0.0, 0.0, 0.0, 0.0]
    for tree in trees:
        (a, x), (b, y) = (numbers(engine, tree, recompute) for engine in (cuda, cpu))
        for n, name in enumerate(("logprobs", "entropy", "values")):
            worst[n] = max(worst[n], (a[name] - b[name]).abs().max().item())
        worst[3] = max(worst[3], off(x, y))
    kind, dtype = "full" if cuda.model.peft is None else "lora", str(cuda.model.compute).removeprefix("torch.")
    print(
        f"{cuda.model.config.model_type:8} {kind} {dtype} recompute={recompute} compiled={cuda.blocks.compiled}: "
        f"logprobs {worst[0]:.2g} entropy {worst[1]:.2g} values {worst[2]:.2g} gradients {worst[3]:.2g} (relative)",
        flush=True,
    )


def timed(name: str, engine: Engine, trees: list[dict[str, torch.Tensor]], tokens: int, **options: Any) -> None:
    """Forward, cotangents and backward; the second pass is begun before the first has ended, as the loop does."""
    given = [derivatives(np.random.default_rng(1), len(tree["tokens"]), "logprobs") for tree in trees]

    def turn() -> None:
        for tree, d in zip(trees, given):
            number = engine.call("forward", options, tree)[0]["pass"]
            engine.call("backward", {"pass": number}, d)

    begun = time.perf_counter()
    turn()
    torch.cuda.synchronize()
    first = time.perf_counter() - begun
    turn()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    turns = 4
    for _ in range(turns):
        turn()
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - begun) / turns
    begun = time.perf_counter()
    engine.call("step", {"learningRate": 1e-6, "clipNorm": 1.0}, {})
    torch.cuda.synchronize()
    step = time.perf_counter() - begun
    print(
        f"{name}: {tokens / seconds:,.0f} tokens/s, {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB, first {first:.1f} s, step {1000 * step:.0f} ms",
        flush=True,
    )


QWEN3 = {
    "0.6B": dict(hidden_size=1024, intermediate_size=3072, num_hidden_layers=28, num_attention_heads=16, tie_word_embeddings=True),
    "1.7B": dict(hidden_size=2048, intermediate_size=6144, num_hidden_layers=28, num_attention_heads=16, tie_word_embeddings=True),
    "8B": dict(hidden_size=4096, intermediate_size=12288, num_hidden_layers=36, num_attention_heads=32, tie_word_embeddings=False),
}


def speed(only: list[str]) -> None:
    vocab, rank16 = 151_936, dict(rank=16, alpha=32, alphaPattern=None, dropout=0.0, targetModules="all-linear")
    for size, shape in QWEN3.items():
        if only and size not in only:
            continue
        config = Qwen3Config(vocab_size=vocab, num_key_value_heads=8, head_dim=128, max_position_embeddings=40960, **shape)
        config.dtype = torch.bfloat16
        model = make(config, dtype=torch.bfloat16, device="cuda")
        for lora in (rank16,) if size == "8B" else (None, rank16):
            kind = "LoRA r16" if lora else "full"
            engine = open_engine(model, CUDA, lora=lora)
            recompute = size == "8B"
            timed(f"{size} {kind} 8 × 2k", engine, [tokens_of(8, 2048, vocab)], 16384, recompute=recompute)
            if size == "0.6B" and lora is None:
                timed(f"{size} {kind} 1 × 16k", engine, [tokens_of(1, 16384, vocab)], 16384)
                tree, packed = shared(4, 16, 1024, 256, vocab), [tokens_of(16, 1280, vocab)] * 4
                timed(f"{size} {kind} tree of 4 × 16 replies (sequences' tokens)", engine, [tree], 64 * 1280)
                timed(f"{size} {kind} the same packed", engine, packed, 64 * 1280)
            del engine
            gc.collect()
            torch.cuda.empty_cache()


if __name__ == "__main__":
    asked = sys.argv[1:] or ["correct", "speed"]
    if "correct" in asked:
        correct()
    if "speed" in asked:
        speed([name for name in asked if name in QWEN3])

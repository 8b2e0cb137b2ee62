"""For a machine with CUDA, by hand: `python -m tests.cuda_sampler [check] [kernel] [speed] [prompts] [profile] [generate]` in this folder.
Checks graphs, kernel and compiled blocks against plain steps on tiny models, then times a random model of Qwen3-0.6B's shape in bf16."""

from __future__ import annotations

import sys
import time
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, Qwen3Config

from stateset_agents_worker import attention
from stateset_agents_worker.draw import Variant
from stateset_agents_worker.kv_cache import rounded_length
from stateset_agents_worker.sampler import Sampler
from tests.tiny import CONFIGS, Done, make_model, prompt_of, run

CUDA = torch.device("cuda")
SHAPES: list[dict[str, Any]] = [{}, {"topP": 0.8}, {"temperature": 0}, {"repetitionPenalty": 1.3, "topLogprobs": 3}]


def together(model: nn.Module, graphed: bool, kernel: bool, compiled: bool) -> tuple[dict[int, Done], Sampler]:
    sampler = Sampler(model, slots=12, context_length=256, cache_tokens=1 << 16)
    sampler._steps.graphed = graphed
    sampler._steps.compiled.on = compiled
    # At once, not after many steps.
    sampler._steps._programs = {True, False} if compiled else set()
    sampler._steps._probed = not kernel
    for id in range(30):
        options = {"maxTokens": 5 + 13 * id % 40, "seed": id, **SHAPES[id % len(SHAPES)]}
        sampler.add(id, options, prompt_of(1 + 11 * (id // 3) % 70, id // 3))
    return run(sampler), sampler


def check() -> None:
    """In f32, where few draws lie so near a border that rounding decides."""
    torch.backends.cuda.matmul.allow_tf32 = False
    for architecture in CONFIGS:
        model = make_model(architecture).to(CUDA)
        wanted, _ = together(model, False, False, False)
        for kernel, compiled in ((False, False), (True, False), (True, True)):
            done, sampler = together(model, True, kernel, compiled)
            same = sum(done[id].tokens == one.tokens for id, one in wanted.items())
            far = max(
                (torch.tensor(done[id].logprobs) - torch.tensor(one.logprobs)).abs().max().item()
                for id, one in wanted.items()
                if done[id].tokens == one.tokens
            )
            steps = sampler._steps
            print(
                f"{architecture}: kernel {steps.decode.kernel is not None}/{kernel}, graphs {steps.graphed} ({len(steps._graphs)}), "
                f"compiled {steps.compiled.on}/{compiled}: {same} of {len(wanted)} replies equal, log-probs within {far:.1e}",
                flush=True,
            )
            assert same >= len(wanted) - 1 and far < 1e-3


def kernel() -> None:
    """Microseconds of one layer's attention, and the share of 4.8 TB/s at which keys and values are read."""
    from torch.nn.functional import scaled_dot_product_attention as plain

    from stateset_agents_worker.decode_kernel import WAY, Way, attend

    ways_to_read = [WAY, *(Way(*way) for way in ((64, 4, 3), (64, 2, 2), (32, 2, 2), (32, 2, 3), (32, 4, 2), (32, 4, 3), (32, 1, 3), (16, 1, 4), (128, 4, 2)))]
    for rows, reach in ((1, 640), (16, 640), (64, 640), (256, 640), (64, 4096)):
        heads, group, dim, length = 8, 2, 128, rounded_length(reach)
        keys, values = (torch.randn(rows, heads, length, dim, device=CUDA, dtype=torch.bfloat16) for _ in range(2))
        query = torch.randn(rows, heads * group, dim, device=CUDA, dtype=torch.bfloat16)
        new = torch.randn(rows, heads, dim, device=CUDA, dtype=torch.bfloat16)
        reaches = torch.full((rows,), reach, device=CUDA)
        mask = torch.zeros(rows, 1, 1, length, device=CUDA, dtype=torch.bfloat16).expand(-1, heads, group, -1)
        grouped = query.view(rows, heads, group, dim)
        places = reaches - 1
        ways = {
            f"{n} parts of {way.block}/{way.warps}/{way.stages}": (
                lambda n=n, way=way: attend(query, new, new, keys, values, places, reaches, 0.1, None, n, way)
            )
            for way in (ways_to_read if rows >= 64 else [WAY])
            for n in ((1, 2, 4, 8) if way == WAY else (1, 2))
        }
        ways["sdpa"] = lambda: plain(grouped, keys, values, attn_mask=mask, scale=0.1)
        moved = 2 * rows * heads * reach * dim * 2
        times = {name: timed(way) for name, way in ways.items()}
        told = ", ".join(f"{name} {us:.0f} us ({moved / us / 4.8e6:.0%})" for name, us in times.items())
        print(f"attention of {rows} rows, {reach} keys: {told}", flush=True)


def timed(way: Any, times: int = 50) -> float:
    """Microseconds on the device, replayed from a graph so that no launch counts."""
    way()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            way()
    graph.replay()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) * 1000 / times


def qwen3() -> nn.Module:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=151936,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=40960,
        tie_word_embeddings=True,
    )
    with torch.device(CUDA):
        model = AutoModelForCausalLM.from_config(config, attn_implementation=attention.NAME, dtype=torch.bfloat16)
    return model.eval()


def speed(model: nn.Module) -> None:
    for batch in (64, 256):
        for kernel, compiled in ((True, True), (True, False), (False, True)):
            sampler = Sampler(model, slots=batch, context_length=4096)
            sampler._steps.compiled.on = compiled
            sampler._steps._programs = {True, False} if compiled else set()
            sampler._steps._probed = not kernel
            begun = time.monotonic()
            burst(sampler, batch, 512, 256, 0)
            warm = time.monotonic() - begun
            whole, decoding, step = burst(sampler, batch, 512, 256, 1)
            print(
                f"batch {batch}, prompt 512, kernel {sampler._steps.decode.kernel is not None}, compiled {sampler._steps.compiled.on}: "
                f"{decoding:,.0f} tok/s decoding ({step:.2f} ms a step), {whole:,.0f} tok/s with prompts; first time {warm:.1f} s, "
                f"{len(sampler._steps._graphs)} graphs, {sum(one.compiled for one in sampler._steps._graphs.values())} of them compiled, cache {sampler.stats()['cacheBytes'] / 1e9:.1f} GB",
                flush=True,
            )
            del sampler
            torch.cuda.empty_cache()


def burst(sampler: Sampler, batch: int, prompt: int, reply: int, seed: int) -> tuple[float, float, float]:
    """Tokens a second of everything and of decoding alone, milliseconds of a step."""
    torch.manual_seed(seed)
    prompts = torch.randint(0, 151936, (batch, prompt), dtype=torch.int32)
    torch.cuda.synchronize()
    begun = time.monotonic()
    first = sampler.sampled_tokens
    for id in range(batch):
        sampler.add(id, {"maxTokens": reply, "seed": id}, prompts[id])
    while sampler.stats()["waiting"] or any(one.prefilling for one in sampler._replies.values()):
        sampler.step()
    sampler._collect(0)
    torch.cuda.synchronize()
    half, drawn = time.monotonic(), sampler.sampled_tokens
    steps = 0
    while not sampler.idle:
        sampler.step()
        steps += 1
    torch.cuda.synchronize()
    end = time.monotonic()
    whole = (sampler.sampled_tokens - first) / (end - begun)
    return whole, (sampler.sampled_tokens - drawn) / (end - half), 1000 * (end - half) / steps


def prompts(model: nn.Module) -> None:
    """How many prompt tokens to compute between two steps, and where the time of one such piece goes."""
    for batch in (64, 256):
        for piece in (4096, 8192, 16384):
            sampler = Sampler(model, slots=batch, context_length=4096)
            sampler._pieces = (piece, 16384)
            sampler._steps.compiled.on = False
            burst(sampler, batch, 512, 64, 0)
            begun = time.monotonic()
            burst(sampler, batch, 512, 1, 1)
            alone = time.monotonic() - begun
            whole, _, _ = burst(sampler, batch, 512, 64, 2)
            print(
                f"batch {batch}, pieces of {piece}: {batch * 512 / alone:,.0f} prompt tokens/s alone; "
                f"{whole:,.0f} tok/s with prompts in replies of 64",
                flush=True,
            )
    sampler = Sampler(model, slots=64, context_length=4096)
    burst(sampler, 64, 512, 1, 0)
    for id, prompt in enumerate(torch.randint(0, 151936, (32, 512), dtype=torch.int32)):
        sampler.add(id, {"maxTokens": 1, "seed": id}, prompt)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    torch.cuda.synchronize()
    begun = time.monotonic()
    with torch.profiler.profile(activities=activities) as seen:
        sampler.step()
        torch.cuda.synchronize()
    print(f"one piece of 16,352 tokens, with the profiler {1000 * (time.monotonic() - begun):.0f} ms", flush=True)
    print(seen.key_averages().table(sort_by="device_time_total", row_limit=22, max_name_column_width=60))


def profile(model: nn.Module) -> None:
    """Where the time of a step goes."""
    sampler = Sampler(model, slots=64, context_length=4096)
    burst(sampler, 64, 512, 256, 0)
    prompts = torch.randint(0, 151936, (64, 512), dtype=torch.int32)
    for id in range(64):
        sampler.add(id, {"maxTokens": 200, "seed": id}, prompts[id])
    while sampler.stats()["waiting"] or any(one.prefilling for one in sampler._replies.values()):
        sampler.step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        for _ in range(20):
            sampler.step()
        torch.cuda.synchronize()
    print(seen.key_averages().table(sort_by="device_time_total", row_limit=25, max_name_column_width=60))
    begun = time.monotonic()
    for _ in range(50):
        sampler.step()
    print(f"{(time.monotonic() - begun) * 20:.2f} ms a step; of it the host:", flush=True)
    replayed, sampler._steps.run = sampler._steps.run, lambda *_: None  # type: ignore[method-assign]
    torch.cuda.synchronize()
    begun = time.monotonic()
    for _ in range(50):
        sampler.step()
    print(f"{(time.monotonic() - begun) * 20:.2f} ms", flush=True)
    sampler._steps.run = replayed  # type: ignore[method-assign]


def generate(model: nn.Module) -> None:
    model.set_attn_implementation("sdpa")  # type: ignore[operator]
    prompts = torch.randint(0, 151936, (64, 512), device=CUDA)
    options = dict(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, eos_token_id=None, pad_token_id=0, use_cache=True)
    for tokens in (8, 64):
        torch.cuda.synchronize()
        begun = time.monotonic()
        model.generate(prompts, max_new_tokens=tokens, **options)  # type: ignore[operator]
        torch.cuda.synchronize()
        print(f"transformers.generate, batch 64, prompt 512, {tokens} tokens: {64 * tokens / (time.monotonic() - begun):,.0f} tok/s")
    model.set_attn_implementation(attention.NAME)  # type: ignore[operator]


def main(asked: list[str]) -> None:
    print(torch.__version__, torch.cuda.get_device_name(), Variant())
    for name, way in {"check": check, "kernel": kernel}.items():
        if not asked or name in asked:
            way()
    timings = {"speed": speed, "prompts": prompts, "profile": profile, "generate": generate}
    if not asked or timings.keys() & set(asked):
        model = qwen3()
        for name, timing in timings.items():
            if not asked or name in asked:
                timing(model)


if __name__ == "__main__":
    main(sys.argv[1:])

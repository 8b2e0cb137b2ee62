"""Tiny random models of the architectures that both engines load, and a sampler that is run to its end."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM

from stateset_agents_worker import attention
from stateset_agents_worker.sampler import Out, Sampler

torch.set_num_threads(1)
attention.register()

VOCABULARY = 97
CONTEXT = 256
LLAMA_LIKE = dict(
    vocab_size=VOCABULARY,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=CONTEXT,
    initializer_range=0.4,
)
CONFIGS: dict[str, dict[str, Any]] = {
    "gpt2": dict(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=CONTEXT, initializer_range=0.4),
    "llama": LLAMA_LIKE,
    "mistral": dict(LLAMA_LIKE, sliding_window=7),
    "qwen2": LLAMA_LIKE,
    "qwen3": dict(LLAMA_LIKE, head_dim=16),
    "granite": dict(LLAMA_LIKE, embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.45, logits_scaling=3.0),
}


def make_model(architecture: str, seed: int = 0, **more: Any) -> nn.Module:
    torch.manual_seed(seed)
    config = AutoConfig.for_model(architecture, **{**CONFIGS[architecture], **more})
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attention.NAME, dtype=torch.float32)
    # Norms and biases that are not those of a fresh model, so that a missing one shows.
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def reference(model: nn.Module) -> nn.Module:
    """The same weights with transformers' own attention."""
    other = copy.deepcopy(model)
    other.set_attn_implementation("eager")
    other.generation_config.eos_token_id = None
    other.generation_config.pad_token_id = 0
    return other


def prompt_of(length: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, VOCABULARY, (length,), generator=generator, dtype=torch.int32)


@dataclass
class Done:
    finish: str = ""
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    arrays: dict[str, Tensor] = field(default_factory=dict)
    result: dict[str, Any] = field(default_factory=dict)
    events: list[Out] = field(default_factory=list)
    error: str | None = None


def take(done: dict[int, Done], outs: list[Out]) -> None:
    for out in outs:
        one = done.setdefault(out.id, Done())
        if not out.final:
            one.events.append(out)
            continue
        one.arrays, one.result = out.arrays, out.result
        one.error = out.result.get("error", {}).get("code")
        if one.error is None:
            one.finish = out.result["finish"]
            one.tokens = out.arrays["tokens"].tolist()
            one.logprobs = out.arrays["logprobs"].tolist()


def run(sampler: Sampler) -> dict[int, Done]:
    done: dict[int, Done] = {}
    for _ in range(100_000):
        if sampler.idle:
            return done
        take(done, sampler.step())
    raise AssertionError("The sampler never came to an end.")


def make_sampler(model: nn.Module, **more: Any) -> Sampler:
    return Sampler(model, **{"slots": 8, "context_length": CONTEXT, "cache_tokens": 8 * 1024, **more})


def sample_one(sampler: Sampler, prompt: Tensor, **options: Any) -> Done:
    sampler.add(1, {"maxTokens": 16, **options}, prompt)
    return run(sampler)[1]


def next_logprobs(model: nn.Module, tokens: list[int], temperature: float = 1.0) -> Tensor:
    """Of every position, as transformers computes them. [tokens, vocabulary]"""
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0]
    return (logits / temperature).log_softmax(-1)

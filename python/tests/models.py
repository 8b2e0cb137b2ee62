"""Small random models for tests, and a plain forward of transformers' to hold them against."""

from __future__ import annotations

import atexit
import math
import shutil
import tempfile
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, GPT2Config, GraniteConfig, LlamaConfig, MistralConfig, PreTrainedConfig, Qwen2Config, Qwen3Config
from transformers.utils import logging

from stateset_agents_worker.engine import Engine
from stateset_agents_worker.ranks import Ranks
from stateset_agents_worker.tree import TokenTree
from tests.trees import path

logging.disable_progress_bar()
VOCAB = 64
_SHAPE = dict(
    vocab_size=VOCAB, hidden_size=48, intermediate_size=88, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=256, rms_norm_eps=1e-5, initializer_range=0.15, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)  # fmt: skip
_LLAMA3 = dict(
    rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=32
)
CONFIGS: dict[str, PreTrainedConfig] = {
    "gpt2": GPT2Config(vocab_size=VOCAB, n_embd=48, n_layer=2, n_head=4, n_positions=256, initializer_range=0.15, bos_token_id=1, eos_token_id=2),
    "llama": LlamaConfig(**_SHAPE, tie_word_embeddings=True, rope_parameters=_LLAMA3),
    "llama-biased": LlamaConfig(**_SHAPE, tie_word_embeddings=False, attention_bias=True, mlp_bias=True),
    "mistral": MistralConfig(**_SHAPE, sliding_window=7, head_dim=12),
    "qwen2": Qwen2Config(**_SHAPE, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**_SHAPE, head_dim=16, tie_word_embeddings=False),
    "granite": GraniteConfig(
        **_SHAPE, embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.45, logits_scaling=3.0, tie_word_embeddings=True
    ),
}
LORA: dict[str, Any] = dict(rank=3, alpha=5, alphaPattern=None, dropout=0.0, targetModules="all-linear")


def folder() -> str:
    made = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


def make(config: PreTrainedConfig, seed: int = 1, dtype: torch.dtype = torch.float32, device: str = "cpu") -> str:
    """Saved; biases and norms have a say."""
    torch.manual_seed(seed)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config).to(dtype)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 1:
                p.add_(0.2 * torch.randn_like(p))
    made = folder()
    model.save_pretrained(made)
    return made


def open_engine(model: str, ranks: Ranks | None = None, **options: Any) -> Engine:
    ranks = ranks or Ranks(1, 0, torch.device("cpu"))
    whole = {"model": model, "adapter": None, "lora": None, "dtype": "auto", "quantise": None, "seed": 1, **options}
    return Engine.open(whole, ranks)


def spread_lora(engine: Engine, seed: int = 5) -> None:
    """B is no longer zero."""
    generator = torch.Generator().manual_seed(seed)
    names = [name for name in engine.masters.names if ".lora_B." in name]
    engine.masters.write({n: 0.1 * torch.randn(engine.masters.read(n).shape, generator=generator) for n in names})


def separately(model: torch.nn.Module, tree: TokenTree, temperature: float = 1.0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Each token's path through the plain model: log-probs and entropies in the tree's order, and its hidden states."""
    logprobs, entropies, hiddens = [], [], []
    for index in range(len(tree.tokens)):
        own = path(tree, index)
        tokens = torch.from_numpy(tree.tokens[own])
        out = model(tokens[None], use_cache=False, output_hidden_states=True)
        hiddens.append(out.hidden_states[-1][0, -1])
        if len(own) < 2 or not tree.wanted[index]:
            logprobs.append(torch.zeros(()))
            entropies.append(torch.zeros(()))
            continue
        log_p = torch.log_softmax(out.logits[0, -2].float() / temperature, -1)
        logprobs.append(log_p[tokens[-1]])
        entropies.append(-(log_p.exp() * log_p).sum())
    return torch.stack(logprobs), torch.stack(entropies), torch.stack(hiddens)


def derivatives(rng: np.random.Generator, count: int, *names: str) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(rng.standard_normal(count).astype(np.float32)) for name in names}


def norm_of(engine: Engine) -> float:
    """Of the gradients."""
    a = engine.call("vector", {"of": "gradients"}, {})[0]["vector"]
    return math.sqrt(engine.call("vectorDot", {"a": a, "b": a}, {})[0]["dot"])

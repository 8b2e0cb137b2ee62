"""The PyTorch side of the comparison.

    parity.py make DIR SEED TOKENIZER_DIR   random models, and what torch, transformers and peft compute with them
    parity.py check DIR                     loads what we saved with transformers and peft; prints how far its logits are off
"""

import json
import os
import shutil
import sys

os.environ["HF_HUB_OFFLINE"] = "1"
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.optimizers import create_loraplus_optimizer
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, Gemma3TextConfig, GPT2Config, GraniteConfig, LlamaConfig, MistralConfig, Phi3Config, Qwen2Config, Qwen3Config, SmolLM3Config

torch.set_num_threads(1)

VOCAB, LENGTH, STEPS = 512, 20, 10
SHAPE = dict(
    vocab_size=VOCAB, hidden_size=48, intermediate_size=88, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-5, initializer_range=0.15,
    bos_token_id=1, eos_token_id=2, pad_token_id=0,
)
LLAMA3 = dict(rope_type="llama3", rope_theta=10000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
GEMMA = dict(full_attention=dict(rope_type="linear", rope_theta=5000.0, factor=2.0),
             sliding_attention=dict(rope_type="default", rope_theta=100.0))
# name → (config, how it is saved)
CASES = {
    "gpt2": (GPT2Config(vocab_size=VOCAB, n_embd=48, n_layer=2, n_head=4, n_positions=128, initializer_range=0.15,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2), {}),
    "llama": (LlamaConfig(**SHAPE, tie_word_embeddings=True, rope_parameters=LLAMA3), {}),
    "llama-biased": (LlamaConfig(**SHAPE, tie_word_embeddings=False, attention_bias=True, mlp_bias=True,
                                 rope_parameters=dict(rope_type="linear", rope_theta=500.0, factor=3.0)),
                     dict(max_shard_size="60KB")),
    "llama-bf16": (LlamaConfig(**SHAPE, tie_word_embeddings=True), dict(dtype=torch.bfloat16)),
    "mistral": (MistralConfig(**SHAPE, sliding_window=7, head_dim=12), {}),
    "qwen2": (Qwen2Config(**SHAPE, tie_word_embeddings=True), dict(dtype=torch.float16)),
    "qwen3": (Qwen3Config(**SHAPE, head_dim=16, tie_word_embeddings=False), {}),
    # A window in some of the layers: from one on, and as a list says.
    "qwen2-mixed": (Qwen2Config(**SHAPE, use_sliding_window=True, sliding_window=7, max_window_layers=1), {}),
    "qwen3-mixed": (Qwen3Config(**{**SHAPE, "num_hidden_layers": 3}, head_dim=16, use_sliding_window=True, sliding_window=5,
                                layer_types=["sliding_attention", "full_attention", "sliding_attention"]), {}),
    "gemma3": (Gemma3TextConfig(**{**SHAPE, "num_hidden_layers": 3}, head_dim=16, query_pre_attn_scalar=24, sliding_window=5,
                                sliding_window_pattern=2, rope_parameters=GEMMA), {}),
    "granite": (GraniteConfig(**SHAPE, tie_word_embeddings=True, embedding_multiplier=3.0, attention_multiplier=0.2,
                              residual_multiplier=0.45, logits_scaling=3.0, attention_bias=True, mlp_bias=True), {}),
    "phi3": (Phi3Config(**SHAPE, sliding_window=7, rope_parameters=dict(rope_type="default", rope_theta=500.0,
                                                                        partial_rotary_factor=0.5)), {}),
    "smollm3": (SmolLM3Config(**{**SHAPE, "num_hidden_layers": 4}, rope_parameters=dict(rope_type="default", rope_theta=5000.0)), {}),
}


# Where peft has one A for layers that the engine adapts each for itself.
SHARED = ("gpt2", "phi3")
SCALED = {"gpt2": {"attn.c_attn": 11}, "phi3": {"qkv_proj": 11, "mlp.down_proj": 2}}


def build(config, dtype=torch.float32):
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float()
    with torch.no_grad():
        # Biases and norms start as zeros and ones; give every parameter a say.
        for p in model.parameters():
            if p.ndim == 1:
                p.add_(0.2 * torch.randn_like(p))
            p.copy_(p.to(dtype).float())
    return model.eval()


def logits(model, tokens):
    with torch.no_grad():
        return torch.log_softmax(model(tokens[None]).logits[0], -1)


def loss(model, tokens, weights):
    scores = torch.log_softmax(model(tokens[None]).logits[0, :-1], -1)
    return (weights * scores.gather(1, tokens[1:, None])[:, 0]).sum()


ADAMW = dict(lr=1e-3, betas=(0.9, 0.99), eps=1e-6)


def train_plus(model, tokens, weights):
    """The same with peft's own LoRA+."""
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = create_loraplus_optimizer(model, torch.optim.AdamW, loraplus_lr_ratio=8.0, loraplus_weight_decay=0.1, **ADAMW)
    descend(optimizer, params, model, tokens, weights)


def train(model, tokens, weights):
    params = [p for p in model.parameters() if p.requires_grad]
    groups = [dict(params=[p for p in params if p.ndim >= 2], weight_decay=0.1),
              dict(params=[p for p in params if p.ndim < 2], weight_decay=0.0)]
    descend(torch.optim.AdamW(groups, **ADAMW), params, model, tokens, weights)


def descend(optimizer, params, model, tokens, weights):
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(model, tokens, weights).backward()
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()


def gradients(model, tokens, weights):
    model.zero_grad()
    loss(model, tokens, weights).backward()
    return {name: p.grad.clone().contiguous() for name, p in model.named_parameters() if p.requires_grad}


def plain(name):
    return name.replace(".default.", ".")


def make(root, seed, tokenizer):
    torch.manual_seed(seed)
    for name, (config, saving) in CASES.items():
        folder = os.path.join(root, name)
        os.makedirs(folder)
        dtype = saving.get("dtype", torch.float32)
        model = build(config, dtype)
        base = os.path.join(folder, "base")
        model.to(dtype).save_pretrained(base, max_shard_size=saving.get("max_shard_size", "1GB"))
        # Loaded anew: converting to 16 bits has also rounded the rotary frequencies, which loading computes in 32.
        model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager").eval()
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(tokenizer, file), base)

        tokens = torch.randint(3, VOCAB, (LENGTH,))
        weights = torch.randn(LENGTH - 1)
        generated = model.generate(tokens[None, :6], do_sample=False, max_new_tokens=40, eos_token_id=None, pad_token_id=0)
        save_file({"tokens": tokens.float(), "weights": weights, "logits": logits(model, tokens),
                   "generated": generated[0, 6:].float()}, os.path.join(folder, "numbers.safetensors"))
        save_file(gradients(model, tokens, weights), os.path.join(folder, "gradients.safetensors"))

        # An adapter as peft makes it, with B no longer zero.
        adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager"),
                                 LoraConfig(r=3, lora_alpha=5, lora_dropout=0.0, target_modules="all-linear",
                                            task_type="CAUSAL_LM", fan_in_fan_out=name == "gpt2"))
        adapted.eval()
        with torch.no_grad():
            for key, p in adapted.named_parameters():
                if "lora_B" in key:
                    p.normal_(0, 0.1)
        adapted.save_pretrained(os.path.join(folder, "adapter"))
        grads = {plain(k): v for k, v in gradients(adapted, tokens, weights).items()}
        save_file({"logits": logits(adapted, tokens), **grads}, os.path.join(folder, "adapter-numbers.safetensors"))
        if name not in SHARED:
            start = {k: p.detach().clone() for k, p in adapted.named_parameters() if p.requires_grad}
            for kind, learn in (("trained", train), ("plus", train_plus)):
                with torch.no_grad():
                    for k, p in adapted.named_parameters():
                        if k in start:
                            p.copy_(start[k])
                learn(adapted, tokens, weights)
                trained = {plain(k): p.detach().contiguous() for k, p in adapted.named_parameters() if p.requires_grad}
                save_file({"logits": logits(adapted, tokens), **trained}, os.path.join(folder, f"adapter-{kind}.safetensors"))

        # One with a scale of its own for some modules, divided by the root of the rank.
        scaled = get_peft_model(AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager"),
                                LoraConfig(r=3, lora_alpha=5, target_modules="all-linear", use_rslora=True,
                                           alpha_pattern=SCALED.get(name, {"v_proj": 11, "mlp.down_proj": 2}),
                                           task_type="CAUSAL_LM", fan_in_fan_out=name == "gpt2")).eval()
        with torch.no_grad():
            for key, p in scaled.named_parameters():
                if "lora_B" in key:
                    p.normal_(0, 0.1)
        scaled.save_pretrained(os.path.join(folder, "scaled"))
        save_file({"logits": logits(scaled, tokens)}, os.path.join(folder, "scaled-numbers.safetensors"))

        train(model, tokens, weights)
        trained = {k: p.detach().contiguous() for k, p in model.named_parameters()}
        save_file({"logits": logits(model, tokens), **trained}, os.path.join(folder, "trained.safetensors"))
    stories = AutoModelForCausalLM.from_pretrained(tokenizer, dtype=torch.float32)
    story = stories.generate(torch.tensor([[1]]), do_sample=False, max_new_tokens=200, eos_token_id=None, pad_token_id=0)
    save_file({"generated": story[0, 1:].float()}, os.path.join(root, "stories.safetensors"))


def check(root):
    report = {}
    for name in CASES:
        folder = os.path.join(root, name)
        tokens = load_file(os.path.join(folder, "numbers.safetensors"))["tokens"].long()
        ours = load_file(os.path.join(folder, "ours.safetensors"))
        kwargs = dict(dtype=torch.float32, attn_implementation="eager")

        def load(kind):
            path = os.path.join(folder, kind)
            if kind == "ours-adapter":
                base = json.load(open(os.path.join(path, "adapter_config.json")))["base_model_name_or_path"]
                return PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base, **kwargs), path).eval()
            model, info = AutoModelForCausalLM.from_pretrained(path, output_loading_info=True, **kwargs)
            odd = {k: list(v) for k, v in info.items() if k in ("missing_keys", "unexpected_keys", "mismatched_keys") and v}
            assert not odd, f"{path}: {odd}"
            return model.eval()

        report[name] = {kind: (logits(load(kind), tokens) - ours[kind]).abs().max().item()
                        for kind in ("ours-full", "ours-merged", "ours-adapter")}
    print(json.dumps(report))


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        check(sys.argv[2])

"""PyTorch's side: `peer.py <shape> <parts, by commas> <threads> <work as JSON>` prints one JSON object of tokens per second."""

import json
import resource
import sys
import time

import torch
from transformers import AutoModelForCausalLM, GPT2Config, LlamaConfig
from transformers.utils import logging

logging.set_verbosity_error()

shape, parts, threads, work = sys.argv[1], sys.argv[2].split(","), int(sys.argv[3]), json.loads(sys.argv[4])
torch.set_num_threads(threads)
torch.manual_seed(0)

CONFIGS = {
    "gpt2-small": GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
    "starter-12m": LlamaConfig(
        vocab_size=8192, hidden_size=320, intermediate_size=864, num_hidden_layers=8, num_attention_heads=10,
        num_key_value_heads=5, max_position_embeddings=1024, tie_word_embeddings=True),
}
TARGETS = {"gpt2-small": ["c_attn"], "starter-12m": ["q_proj", "v_proj"]}
vocab = CONFIGS[shape].vocab_size


def build():
    return AutoModelForCausalLM.from_config(CONFIGS[shape], attn_implementation="sdpa").float()


def fastest(runs, task, warm_up=None):
    """Seconds of the fastest of several runs, after one that only warms up."""
    (warm_up or task)()
    best = float("inf")
    for _ in range(runs):
        start = time.perf_counter()
        task()
        best = min(best, time.perf_counter() - start)
    return best


def tokens(*size):
    return torch.randint(0, vocab, size)


def decode(model, batch, n=work["decodeTokens"]):
    prompt = tokens(batch, work["decodePrompt"])
    model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=True, top_k=0, max_new_tokens=n,
                   min_new_tokens=n, pad_token_id=0, use_cache=True)


def step(model, optimizer, batches, keep):
    """One optimiser step over micro-batches; the loss is over the last `keep` tokens of each sequence."""
    for ids in batches:
        logits = model(ids, logits_to_keep=keep + 1).logits[:, :-1]
        scores = torch.log_softmax(logits.float(), -1).gather(2, ids[:, -keep:, None])
        (-scores.sum() / (len(batches) * scores.numel())).backward()
    torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def adamw(model):
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)


def train_batches():
    return [tokens(work["trainSequences"], work["trainLength"])]


def measure_decode(result, model, suffix):
    with torch.inference_mode():
        for batch in (1, 4, 16):
            seconds = fastest(2, lambda: decode(model, batch), lambda: decode(model, batch, 4))
            result[f"decode{batch}{suffix}"] = batch * work["decodeTokens"] / seconds


def measure_train(result, model):
    model.train()
    optimizer = adamw(model)
    trained, keep = work["trainSequences"] * work["trainLength"], work["trainLength"] - 1
    result["trainFull"] = trained / fastest(3, lambda: step(model, optimizer, train_batches(), keep))
    # Two of the group's sequences are run, one at a time (all at once need more memory and are no faster), and the rate is that
    # of the whole group: every sequence costs the same.
    length = work["sharedPrompt"] + work["sharedReplyLength"]
    group = lambda: step(model, optimizer, [tokens(1, length) for _ in range(2)], work["sharedReplyLength"])
    result["sharedPrefix"] = 2 * length / fastest(1, group, lambda: step(model, optimizer, [tokens(1, length)], 1))


def measure_lora(result):
    from peft import LoraConfig, get_peft_model
    adapted = get_peft_model(build(), LoraConfig(r=work["loraRank"], lora_alpha=16, target_modules=TARGETS[shape],
                                                 fan_in_fan_out=shape == "gpt2-small")).train()
    optimizer = adamw(adapted)
    trained, keep = work["trainSequences"] * work["trainLength"], work["trainLength"] - 1
    result["trainLora"] = trained / fastest(3, lambda: step(adapted, optimizer, train_batches(), keep))


def measure_speed():
    result = {}
    model = build().eval()
    # Small weights are compared with the faster of both.
    if "decode" in parts or "small" in parts:
        measure_decode(result, model, "")
    if "small" in parts:
        measure_decode(result, build().eval().to(torch.bfloat16), "Bf16")
    if "prefill" in parts:
        with torch.inference_mode():
            seconds = fastest(3, lambda: model(tokens(1, work["prefillTokens"]), logits_to_keep=1))
        result["prefill"] = work["prefillTokens"] / seconds
    if "train" in parts:
        measure_train(result, model)
        del model
        measure_lora(result)
    return result


def measure_memory():
    model = build().eval()
    with torch.inference_mode():
        decode(model, 16)
    model.train()
    optimizer = adamw(model)
    for _ in range(2):
        step(model, optimizer, train_batches(), work["trainLength"] - 1)
    return {"peakMemory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


print(json.dumps(measure_memory() if "memory" in parts else measure_speed()))

"""The other side, in PyTorch: `peer.py <mode> <request file>` prints one JSON object on its last line.

convert  {gguf, folder}: the dequantised weights as a Hugging Face folder, and beside it as f32.gguf for llama.cpp
score    {folder, sequences: [ids], threads}: {logprobs: [[of every token but the first]], likeliest: [[the token it would take in its place]]}
decode   {folder, dtype, batch, prompt, tokens, threads, runs}: {perSecond}
train    {folder, rank, alpha, sequences, length, steps, threads}: {peakBytes, seconds} of LoRA on all linear layers, f32
"""

import json
import os
import resource
import sys
import time

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

logging.set_verbosity_error()
logging.disable_progress_bar()
mode, request = sys.argv[1], json.load(open(sys.argv[2]))
torch.set_num_threads(request.get("threads", os.cpu_count()))
torch.manual_seed(0)


def load(dtype=torch.float32):
    return AutoModelForCausalLM.from_pretrained(request["folder"], dtype=dtype).eval()


def convert():
    folder, name = os.path.split(request["gguf"])
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    # The weights are plain f32 by now; the mark of the file they came from would keep them from being saved.
    model.hf_quantizer, model.is_quantized = None, False
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.save_pretrained(request["folder"])
    AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(request["folder"])
    plain_gguf()
    return {"folder": request["folder"]}


def plain_gguf():
    """The same file with every tensor in F32, in the layout llama.cpp has it."""
    import gguf

    reader = gguf.GGUFReader(request["gguf"])
    architecture = reader.get_field("general.architecture").contents()
    writer = gguf.GGUFWriter(os.path.join(request["folder"], "f32.gguf"), architecture)
    for field in reader.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.file_type",
                                                            "general.quantization_version"):
            continue
        inner = field.types[1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), field.types[0], inner)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type).astype("float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def score():
    model = load()
    scores, likeliest = [], []
    with torch.inference_mode():
        for sequence in request["sequences"]:
            ids = torch.tensor([sequence])
            logprobs = torch.log_softmax(model(ids).logits[0, :-1].double(), -1)
            scores.append(logprobs.gather(1, ids[0, 1:, None])[:, 0].tolist())
            likeliest.append(logprobs.argmax(-1).tolist())
    return {"logprobs": scores, "likeliest": likeliest}


def decode():
    model = load(getattr(torch, request["dtype"]))
    batch, length, n = request["batch"], request["prompt"], request["tokens"]
    prompt = torch.randint(100, 20_000, (batch, length))

    def generate(count):
        with torch.inference_mode():
            model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=True, top_k=0, pad_token_id=0,
                           max_new_tokens=count, min_new_tokens=count, use_cache=True)

    generate(4)
    best = float("inf")
    for _ in range(request["runs"]):
        start = time.perf_counter()
        generate(n)
        best = min(best, time.perf_counter() - start)
    return {"perSecond": batch * n / best}


def train():
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(load(), LoraConfig(r=request["rank"], lora_alpha=request["alpha"],
                                              target_modules="all-linear")).train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-5, fused=True)
    ids = torch.randint(100, 20_000, (request["sequences"], request["length"]))
    seconds = []
    for _ in range(request["steps"]):
        start = time.perf_counter()
        logits = model(ids).logits[:, :-1]
        scores = torch.log_softmax(logits.float(), -1).gather(2, ids[:, 1:, None])
        (-scores.mean()).backward()
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
    return {"peakBytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "seconds": min(seconds[1:] or seconds)}


print(json.dumps({"convert": convert, "score": score, "decode": decode, "train": train}[mode]()))

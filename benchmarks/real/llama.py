"""llama.cpp: `llama.py <mode> <request file>` prints one JSON object on its last line, or null where llama-cpp-python is not installed.

decode   {model, batch, prompt, tokens, threads, runs}: {perSecond}. No token is drawn: the least that it can take. Given ids stand in for drawn ones.
score    {model, sequences: [ids]}: {logprobs: [[of every token but the first]]}
"""

import json
import os
import sys
import time

mode, request = sys.argv[1], json.load(open(sys.argv[2]))
threads = request.get("threads", os.cpu_count())


def open_context(llama, positions, batch, sequences=1):
    llama.llama_backend_init()
    model = llama.llama_model_load_from_file(request["model"].encode(), llama.llama_model_default_params())
    params = llama.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_seq_max = positions, batch, sequences
    params.n_threads = params.n_threads_batch = threads
    vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
    return llama.llama_init_from_model(model, params), llama.llama_batch_init(batch, 0, 1), vocabulary


def put(work, i, token, position, sequence, logits):
    work.token[i], work.pos[i], work.logits[i] = token, position, logits
    work.n_seq_id[i] = 1
    work.seq_id[i][0] = sequence


def run_batch(llama, context, work, count):
    work.n_tokens = count
    if llama.llama_decode(context, work) != 0:
        raise RuntimeError("llama_decode failed")
    llama.llama_synchronize(context)


def score(llama):
    import numpy as np

    longest = max(len(ids) for ids in request["sequences"])
    context, work, vocabulary = open_context(llama, longest, longest)
    scores = []
    for ids in request["sequences"]:
        llama.llama_memory_clear(llama.llama_get_memory(context), True)
        for i, token in enumerate(ids):
            put(work, i, token, i, 0, True)
        run_batch(llama, context, work, len(ids))
        logits = np.ctypeslib.as_array(llama.llama_get_logits(context), (len(ids), vocabulary))[:-1].astype(np.float64)
        top = logits.max(1, keepdims=True)
        total = top[:, 0] + np.log(np.exp(logits - top).sum(1))
        scores.append((logits[np.arange(len(ids) - 1), ids[1:]] - total).tolist())
    return {"logprobs": scores}


def decode(llama):
    batch, prompt = request["batch"], request["prompt"]
    context, work, _ = open_context(llama, batch * (prompt + request["tokens"] + 8), batch * prompt, batch)

    def run(position, count):
        """The next `count` tokens of every sequence."""
        for i in range(batch * count):
            sequence, at = divmod(i, count)
            token = 100 + (7919 * (sequence * prompt + position + at)) % 19_000
            put(work, i, token, position + at, sequence, at + 1 == count)
        run_batch(llama, context, work, batch * count)

    best = float("inf")
    for _ in range(request["runs"] + 1):
        llama.llama_memory_clear(llama.llama_get_memory(context), True)
        run(0, prompt)
        started = time.perf_counter()
        for step in range(request["tokens"]):
            run(prompt + step, 1)
        best = min(best, time.perf_counter() - started)
    return {"perSecond": batch * request["tokens"] / best}


try:
    import llama_cpp
except ImportError:
    print("null")
else:
    print(json.dumps({"decode": decode, "score": score}[mode](llama_cpp)))

"""llama.cpp decoding several sequences at once: `llama_decode.py <request file>` prints one JSON object on its last line.

{model, batch, prompt, tokens, threads, runs}: {perSecond}, or null where llama-cpp-python is not installed. Its own functions are
called without anything around them, and no token is drawn: the least that it can take. Given ids stand in for drawn ones.
"""

import json
import sys
import time

request = json.load(open(sys.argv[1]))


def measure(llama):
    batch, prompt, threads = request["batch"], request["prompt"], request["threads"]
    llama.llama_backend_init()
    model = llama.llama_model_load_from_file(request["model"].encode(), llama.llama_model_default_params())
    params = llama.llama_context_default_params()
    params.n_ctx = batch * (prompt + request["tokens"] + 8)
    params.n_batch = batch * prompt
    params.n_seq_max = batch
    params.n_threads = params.n_threads_batch = threads
    context = llama.llama_init_from_model(model, params)
    work = llama.llama_batch_init(batch * prompt, 0, 1)

    def run(position, count):
        """The next `count` tokens of every sequence."""
        work.n_tokens = batch * count
        for i in range(batch * count):
            sequence, at = divmod(i, count)
            work.token[i] = 100 + (7919 * (sequence * prompt + position + at)) % 19_000
            work.pos[i] = position + at
            work.n_seq_id[i] = 1
            work.seq_id[i][0] = sequence
            work.logits[i] = at + 1 == count
        if llama.llama_decode(context, work) != 0:
            raise RuntimeError("llama_decode failed")
        llama.llama_synchronize(context)

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
    print(json.dumps(measure(llama_cpp)))

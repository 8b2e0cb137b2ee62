"""`python generate.py FOLDER`: tokens a second of transformers' own generate() on the same work, prompts included. Prints JSON."""

import json
import sys
import time

import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.bfloat16).to("cuda").eval()
batch, prompt, reply = 64, 512, 256
asked = torch.randint(300, 3300, (batch, prompt), device="cuda")
options = dict(do_sample=True, top_k=0, max_new_tokens=reply, min_new_tokens=reply, pad_token_id=0)
with torch.no_grad():
    model.generate(asked, **{**options, "max_new_tokens": 8, "min_new_tokens": 8})
    torch.cuda.synchronize()
    start = time.time()
    model.generate(asked, **options)
    torch.cuda.synchronize()
print(json.dumps({"tokensPerSecond": batch * reply / (time.time() - start)}))

"""An adapter of ours under peft: `gguf_adapter.py <request>` prints log-probs of every token of `sequences` after its first.

`folder` on the base that ours dequantised; `dequantised` on the GGUF file as transformers reads it, or null without the package `gguf`.
"""

import json
import os
import sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

request = json.loads(sys.argv[1])
torch.set_num_threads(1)


def scores(base):
    model = PeftModel.from_pretrained(base, request["adapter"]).eval()
    found = []
    with torch.inference_mode():
        for sequence in request["sequences"]:
            ids = torch.tensor([sequence])
            logprobs = torch.log_softmax(model(ids).logits[0, :-1].double(), -1)
            found += logprobs.gather(1, ids[0, 1:, None])[:, 0].tolist()
    return found


kwargs = dict(dtype=torch.float32, attn_implementation="eager")
folder = scores(AutoModelForCausalLM.from_pretrained(request["base"], **kwargs))
try:
    import gguf  # noqa: F401
except ImportError:
    dequantised = None
else:
    place, name = os.path.split(request["gguf"])
    dequantised = scores(AutoModelForCausalLM.from_pretrained(place, gguf_file=name, **kwargs))
print(json.dumps({"folder": folder, "dequantised": dequantised}))

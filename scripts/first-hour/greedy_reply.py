"""The greedy reply of the model in ./merged to ./messages.json, by transformers, as JSON on the last line."""

import json
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("merged", dtype="float32")
tokenizer = AutoTokenizer.from_pretrained("merged")
messages = json.load(open("messages.json"))
ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
out = model.generate(**ids, max_new_tokens=16, do_sample=False)
print(json.dumps(tokenizer.decode(out[0][ids["input_ids"].shape[1]:], skip_special_tokens=True), ensure_ascii=False))

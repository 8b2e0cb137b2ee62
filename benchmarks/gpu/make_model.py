"""`python make_model.py CONFIG.json FOLDER`: a random model of a shape, in bf16, made where there is a GPU. Shared by every measurement."""

import json
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM

source, folder = sys.argv[1:]
shape = json.load(open(source))
config = AutoConfig.for_model(shape.pop("model_type"), **shape)
torch.manual_seed(1)
with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
model.save_pretrained(folder)

"""The same GRPO step by TRL's GRPOTrainer: called by main.ts, prints one JSON line with the seconds of each step."""
import argparse
import json
import sys
import time

# No tracker takes part in the measurement; transformers would import wandb where it is installed.
sys.modules["wandb"] = None

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--model", required=True)
parser.add_argument("--prompts", required=True, help="JSON file: a list of lists of chat messages")
parser.add_argument("--group", type=int, required=True)
parser.add_argument("--tokens", type=int, required=True)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--dtype", required=True, choices=["float32", "bfloat16"])
parser.add_argument("--out", required=True)
args = parser.parse_args()

with open(args.prompts) as file:
    prompts = json.load(file)
lengths = []


def reward(completions, completion_ids, **_):
    lengths.extend(len(ids) for ids in completion_ids)
    return [float(len(set(ids))) for ids in completion_ids]


class Clock(TrainerCallback):
    def __init__(self):
        self.seconds = []
        self.cpu_seconds = []

    def on_step_begin(self, *_, **__):
        self.started = time.perf_counter()
        self.cpu_started = time.process_time()

    def on_step_end(self, *_, **__):
        self.seconds.append(time.perf_counter() - self.started)
        self.cpu_seconds.append(time.process_time() - self.cpu_started)


clock = Clock()
config = GRPOConfig(
    output_dir=args.out,
    per_device_train_batch_size=len(prompts) * args.group,
    num_generations=args.group,
    max_completion_length=args.tokens,
    max_steps=args.steps,
    learning_rate=1e-4,
    lr_scheduler_type="constant",
    temperature=1.0,
    beta=0.0,
    # Products; weights stay in f32.
    bf16=args.dtype == "bfloat16",
    use_cpu=True,
    gradient_checkpointing=False,
    logging_steps=1000,
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
    seed=0,
)
trainer = GRPOTrainer(
    model=AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32),
    processing_class=AutoTokenizer.from_pretrained(args.model),
    reward_funcs=reward,
    args=config,
    # Each prompt once per step, in order, as often as there are steps.
    train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in prompts] * args.steps),
    callbacks=[clock],
)
trainer.train()
print(
    json.dumps(
        {
            "seconds": clock.seconds,
            "cpuSeconds": clock.cpu_seconds,
            "meanTokens": sum(lengths) / len(lengths),
            "threads": torch.get_num_threads(),
        }
    )
)

"""The same training by TRL's GRPOTrainer: called by main.ts with one JSON argument, prints a Training (measure.ts) as JSON on its last line."""
import json
import os
import resource
import subprocess
import sys
import time

begun = time.perf_counter()
given = json.loads(sys.argv[1])
threads = given["threads"]
# Before torch is imported: its libraries read them once. A thread that waits by spinning would count as work.
os.environ.update({"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE", "TOKENIZERS_PARALLELISM": "false"})
# No tracker takes part in the measurement; transformers would import wandb where it is installed.
sys.modules["wandb"] = None

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

torch.set_num_threads(threads)
# The very reward of the other side, in its own process; what it costs is added to what is counted here.
server = subprocess.Popen(given["rewardCommand"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
server_cpu = [json.loads(server.stdout.readline())["cpuSeconds"]]
means, lengths = [], []


def reward(prompts, completions, completion_ids, **_):
    replies = [
        {"prompt": prompt, "text": completion[0]["content"], "tokens": ids}
        for prompt, completion, ids in zip(prompts, completions, completion_ids)
    ]
    server.stdin.write(json.dumps(replies) + "\n")
    server.stdin.flush()
    answer = json.loads(server.stdout.readline())
    server_cpu.append(answer["cpuSeconds"])
    lengths.extend(len(ids) for ids in completion_ids)
    means.append(sum(answer["rewards"]) / len(replies))
    return answer["rewards"]


class Until(TrainerCallback):
    """Stops when the mean of the last steps reaches the target; holds the clocks."""

    started = None

    def on_step_begin(self, *_, **__):
        if self.started is None:
            self.started = (time.perf_counter(), time.process_time())

    def on_step_end(self, args, state, control, **_):
        self.ended = (time.perf_counter(), time.process_time())
        last = means[-given["window"] :]
        if len(last) == given["window"] and sum(last) / len(last) >= given["target"]:
            control.should_training_stop = True
        return control


group = given["groupSize"]
conversations = given["groupsPerStep"] * group
messages = [
    [{"role": "system", "content": given["systemPrompt"]}, {"role": "user", "content": opener}] for opener in given["openers"]
]
until = Until()
config = GRPOConfig(
    output_dir=given["out"],
    per_device_train_batch_size=given["batch"],
    gradient_accumulation_steps=conversations // given["batch"],
    num_generations=group,
    num_iterations=1,
    max_completion_length=given["maxTokens"],
    max_steps=given["steps"],
    temperature=given["temperature"],
    top_p=1.0,
    top_k=0,
    loss_type="grpo",
    scale_rewards="group",
    epsilon=given["epsilonLow"],
    epsilon_high=given["epsilonHigh"],
    beta=0.0,
    learning_rate=given["learningRate"],
    lr_scheduler_type="constant",
    warmup_steps=0,
    adam_beta1=given["beta1"],
    adam_beta2=given["beta2"],
    adam_epsilon=given["epsilon"],
    weight_decay=given["weightDecay"],
    max_grad_norm=given["clipNorm"],
    bf16=given["dtype"] == "bfloat16",
    use_cpu=True,
    use_vllm=False,
    gradient_checkpointing=False,
    # The openers come in the order in which the other side draws them.
    shuffle_dataset=False,
    dataloader_pin_memory=False,
    logging_strategy="no",
    save_strategy="no",
    report_to=[],
    disable_tqdm=True,
    seed=given["seed"],
)
trainer = GRPOTrainer(
    # f32 with bf16 too: then the products are computed in bf16 and the weights kept in f32, or small updates would be lost.
    model=AutoModelForCausalLM.from_pretrained(given["model"], dtype=torch.float32, attn_implementation="sdpa"),
    processing_class=AutoTokenizer.from_pretrained(given["model"]),
    reward_funcs=reward,
    args=config,
    train_dataset=Dataset.from_list([{"prompt": prompt} for prompt in messages]),
    callbacks=[until],
)
setup = time.perf_counter() - begun
trainer.train()
server.stdin.close()
server.wait()
reward_cpu = sum(server_cpu[1:])
usage = resource.getrusage(resource.RUSAGE_SELF)
print(
    json.dumps(
        {
            "rewards": means,
            "cpuSeconds": until.ended[1] - until.started[1] + reward_cpu,
            "seconds": until.ended[0] - until.started[0],
            "totalCpuSeconds": usage.ru_utime + usage.ru_stime + reward_cpu,
            "setupSeconds": setup,
            "meanTokens": sum(lengths) / len(lengths),
            "rewardCpuSeconds": reward_cpu,
        }
    )
)

import { z } from "zod";
import { Agent } from "../agent/agent.ts";
import type { AgentOptions } from "../agent/agent-options.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import type { TrainResult } from "../training/train.ts";
import type { TrainOptions } from "../training/train-options.ts";
import { MultiTurnGRPOTrainer } from "../training/trainer.ts";

type WithoutAgent<O> = O extends unknown ? Omit<O, "agent"> : never;

export type DistributedTrainerOptions = WithoutAgent<TrainOptions> & {
  /** Options: the agent is made on the torch engine. An agent: it must have as many GPUs already. */
  agent: Agent | AgentOptions;
  /** Of this machine. Default: 1, or those of the agent. */
  numGpus?: number;
  /** Both are FSDP2 here: each GPU holds its share of the weights, and the gradients are those of DDP. */
  strategy?: "ddp" | "fsdp";
};

const schema = z.strictObject({
  numGpus: z.int().min(1).optional(),
  strategy: z.enum(["ddp", "fsdp"]).optional(),
});

/**
 * train() on several GPUs, under the Python system's name: the torch engine with `torch.gpus`, said in one place.
 *
 * @example
 * const trainer = new DistributedTrainer({ agent: { model: "Qwen/Qwen3-8B", lora: true }, environment, reward, numGpus: 4 });
 * const { agent } = await trainer.train();
 */
export class DistributedTrainer extends MultiTurnGRPOTrainer {
  readonly numGpus: number | undefined;

  constructor({ agent, numGpus, strategy, ...options }: DistributedTrainerOptions) {
    const own = parseOptions(schema, { numGpus, strategy }, "DistributedTrainer");
    super({ ...options, agent: agent instanceof Agent ? agent : onGpus(agent, own.numGpus) } as TrainOptions);
    this.numGpus = own.numGpus;
  }

  override async train(extra: Parameters<MultiTurnGRPOTrainer["train"]>[0] = {}): Promise<TrainResult> {
    const { agent } = this.options;
    await agent.initialize();
    const { ranks = 1 } = agent.policy.capabilities;
    if (this.numGpus !== undefined && this.numGpus !== ranks) {
      throw new StatesetError("INVALID_OPTION", `numGpus is ${this.numGpus}, and the agent computes on ${ranks}.`, {
        hint: `Give its options instead of an agent, or make it with { engine: "torch", torch: { gpus: ${this.numGpus} } }.`,
      });
    }
    return super.train(extra);
  }
}

function onGpus(options: AgentOptions, gpus: number | undefined): MultiTurnAgent {
  const torch = { ...options.torch, ...(gpus !== undefined && { gpus }) };
  return new MultiTurnAgent({ ...options, engine: options.engine ?? "torch", torch });
}

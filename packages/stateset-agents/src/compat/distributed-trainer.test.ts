import { describe, expect, it } from "vitest";
import type { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { FunctionReward, politeShare, quickRun, tableAgent } from "../test-support/table-training.ts";
import { DistributedTrainer, type DistributedTrainerOptions } from "./distributed-trainer.ts";

const run = { ...quickRun, steps: 1, groupsPerStep: 1, groupSize: 2, reward: new FunctionReward(politeShare) };

describe("DistributedTrainer", () => {
  it("makes an agent of options on the torch engine, with as many GPUs", () => {
    const trainer = new DistributedTrainer({
      ...run,
      agent: { model: "some/model", torch: { dtype: "f32" } },
      numGpus: 4,
    });
    const { engine, torch, model } = (trainer.options.agent as MultiTurnAgent).options;
    expect({ engine, torch, model }).toEqual({
      engine: "torch",
      torch: { gpus: 4, dtype: "f32" },
      model: "some/model",
    });
    expect(trainer.options).not.toHaveProperty("numGpus");
  });

  it("trains an agent that has them already, and refuses one that has not", async () => {
    const { agent, policy } = tableAgent();
    const { run: ended } = await new DistributedTrainer({ ...run, agent, numGpus: 1, strategy: "ddp" }).train();
    expect(ended.status).toBe("finished");
    const more = new DistributedTrainer({ ...run, agent, numGpus: 4 });
    await expect(more.train()).rejects.toThrow(/numGpus is 4, and the agent computes on 1.*torch: \{ gpus: 4 \}/);
    Object.assign(policy.capabilities, { ranks: 4 });
    expect((await more.train()).run.status).toBe("finished");
  });

  it("refuses what it does not know", () => {
    const { agent } = tableAgent();
    const wrong = { ...run, agent, strategy: "deepspeed" } as unknown as DistributedTrainerOptions;
    expect(() => new DistributedTrainer(wrong)).toThrow(/strategy.*Valid: ddp, fsdp/);
    expect(() => new DistributedTrainer({ ...run, agent, numGpus: 0 })).toThrow(/numGpus/);
  });
});

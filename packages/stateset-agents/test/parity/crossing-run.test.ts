/** A run that changes engines, and the number of ranks, at its checkpoints. Needs STATESET_PYTHON. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../../src/agent/multi-turn-agent.ts";
import { loadNativePolicy } from "../../src/policy/native/load.ts";
import type { LoraOptions, Policy } from "../../src/policy/policy.ts";
import { rewardFunction } from "../../src/reward/define-reward.ts";
import { loadAgentFromCheckpoint } from "../../src/run/load-agent.ts";
import { tableEnvironment } from "../../src/test-support/table-training.ts";
import { train } from "../../src/training/train.ts";
import { makeTinyModel, temporaryFolder } from "../tiny-model.ts";
import { python, TorchWorkers } from "../torch-workers.ts";

const lora: LoraOptions = { rank: 3, alpha: 5, dropout: 0, targetModules: "all-linear" };

describe.skipIf(!python)("a run that changes engines", { timeout: 300_000 }, () => {
  // A torchrun that is killed leaves a folder where its temporary ones are.
  process.env.TMPDIR = temporaryFolder();
  const [one, two] = [new TorchWorkers(), new TorchWorkers(2)];

  it.each([
    ["all weights", undefined],
    ["an adapter", lora],
  ] as const)("of %s ends with all its steps", async (_, adapter) => {
    const options = { dir: await makeTinyModel("qwen2"), ...(adapter && { lora: adapter }) };
    const dir = join(temporaryFolder(), "run");
    const engines: [string, () => Promise<Policy>][] = [
      ["native", () => loadNativePolicy(options)],
      ["torch", () => one.open(options)],
      ["torch", () => two.open(options)],
      ["native", () => loadNativePolicy(options)],
    ];
    for (const [index, [engine, open]] of engines.entries()) {
      const policy = await open();
      const { run } = await train({
        agent: new MultiTurnAgent({ policy, sampling: { maxTokens: 6 } }),
        environment: tableEnvironment(),
        reward: rewardFunction({ name: "long" }, ({ turns }) => turns.at(-1)!.content.length),
        ...(index === 0 ? { dir } : { resumeFrom: dir }),
        ...{
          algorithm: "ppo",
          kl: { coefficient: 0.1, renewEvery: 2 },
          steps: index + 1,
          groupsPerStep: 1,
          groupSize: 4,
        },
      });
      expect(run).toMatchObject({ status: "finished", steps: index + 1 });
      expect(run.warnings.filter(({ kind }) => kind === "checkpoint-damaged" || kind === "restarted")).toEqual([]);
      // Another engine is no other model, however each of them digests its weights.
      expect(run.warnings.map(({ message }) => message).join()).not.toContain("digest");
      const last = join(dir, "checkpoints", readFileSync(join(dir, "checkpoints", "last"), "utf8"));
      const state = JSON.parse(readFileSync(join(last, "policy", "policy.json"), "utf8"));
      expect(state).toMatchObject({ engine, version: policy.version, valueHead: true });
      expect(run.metrics.map(({ step }) => step)).toEqual(Array.from({ length: index + 1 }, (_, at) => at + 1));
      await policy.close();
      const agent = await loadAgentFromCheckpoint(last, { threads: 1 });
      expect(agent.policy.model.lora).toEqual(adapter);
      await agent.close();
    }
  });
});

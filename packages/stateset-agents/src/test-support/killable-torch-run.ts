/** A small run on the torch engine, for tests that kill it or its ranks: `killable-torch-run.ts <model> <dir>`. Resumes what it finds. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { loadTorchPolicy } from "../policy/torch/load.ts";
import { train } from "../training/train.ts";
import { FunctionReward, tableEnvironment, tableScenarios } from "./table-training.ts";

const [model, dir] = process.argv.slice(2) as [string, string];
const policy = await loadTorchPolicy({ dir: model, torch: { device: "cpu", gpus: 2, deadlineSeconds: 60 } });
const goesOn = () => void process.stdout.write("goes on\n");
const { run } = await train({
  ...(existsSync(join(dir, "config.json")) ? { resumeFrom: dir } : { dir }),
  agent: new MultiTurnAgent({ policy, sampling: { maxTokens: 8 } }),
  environment: tableEnvironment(),
  heldOut: tableScenarios.slice(0, 1).map((scenario) => ({ ...scenario, id: "held" })),
  reward: new FunctionReward((turns) => turns.at(-1)!.content.length),
  callbacks: { onStart: goesOn, onWarning: ({ kind }) => (kind === "worker-lost" ? goesOn() : undefined) },
  ...{ algorithm: "ppo", kl: { coefficient: 0.01 }, steps: 12, groupsPerStep: 1, groupSize: 2, restarts: 1_000 },
  ...{ evaluation: { every: 3, samples: 1 }, checkpoint: { every: 1, keep: 2 } },
});
await policy.close();
process.stdout.write(`${JSON.stringify({ ended: run.status, warnings: run.warnings.map(({ kind }) => kind) })}\n`);

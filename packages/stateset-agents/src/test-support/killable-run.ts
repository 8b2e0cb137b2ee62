/** A small run in a process of its own, for tests that kill it: `node --import tsx killable-run.ts <dir>`. Resumes what it finds. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { train } from "../training/train.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "./table-training.ts";

const dir = process.argv[2]!;
const where = existsSync(join(dir, "config.json")) ? { resumeFrom: dir } : { dir };
await train({
  ...where,
  agent: tableAgent().agent,
  environment: tableEnvironment(),
  reward: new FunctionReward(politeShare),
  heldOut: [0, 1].map((i) => ({ id: `held-${i}`, userResponses: ["help card", "order no"] })),
  name: "killable",
  steps: 24,
  learningRate: 0.2,
  groupsPerStep: 2,
  groupSize: 4,
  algorithm: "vapo",
  valueWarmupSteps: 5,
  checkpoint: { every: 2, keep: 2 },
  evaluation: { every: 6, samples: 2 },
  trajectories: { every: 5 },
  callbacks: { onStart: () => void process.stdout.write("started\n") },
});

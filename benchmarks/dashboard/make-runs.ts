/**
 * Many long runs, for measuring the dashboard: folders as train() writes them, with numbers that look like a run's. Nothing is learnt.
 *
 *   npx tsx benchmarks/dashboard/make-runs.ts <folder> [runs] [steps] [conversations] [tokens of the long one]
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { starterModelPath } from "@stateset-agents/starter-model";
import { createRandom, type Random } from "../../packages/stateset-agents/src/random.ts";
import { pathIn } from "../../packages/stateset-agents/src/run/layout.ts";
import { groupSize, groups, makeConversations } from "./make-conversations.ts";

export interface ManyRuns {
  runs: number;
  steps: number;
  /** Conversations with tokens, all of the first run. */
  trajectories: number;
  /** Of one more conversation of it, at its last step. */
  longTokens: number;
}

export const nameOf = (run: number) => `bench-${String(Math.floor(run / 4)).padStart(2, "0")}-seed${run % 4}`;

const evaluateEvery = 50;

export async function makeManyRuns(dir: string, { runs, steps, trajectories, longTokens }: ManyRuns): Promise<void> {
  for (let run = 0; run < runs; run++) {
    // Four seeds each: runs to fold.
    const [experiment, seed, id] = [Math.floor(run / 4), run % 4, nameOf(run)];
    makeRun(join(dir, id), { id, experiment, seed, steps, started: 1_790_000_000_000 + run * 3_600_000 });
  }
  await makeConversations(join(dir, nameOf(0)), { count: trajectories, longTokens, lastStep: steps });
}

function makeRun(
  dir: string,
  {
    id,
    experiment,
    seed,
    steps,
    started,
  }: { id: string; experiment: number; seed: number; steps: number; started: number },
): void {
  mkdirSync(dir, { recursive: true });
  const random = createRandom(1000 * experiment + seed);
  const config = {
    version: 2,
    id,
    learner: "rl",
    model: {
      name: starterModelPath,
      digest: "0123456789abcdef",
      architecture: "llama",
      parameters: 11_720_000,
      lora: null,
    },
    algorithm: { algorithm: "grpo", epsilonLow: 0.2, epsilonHigh: 0.2, scale: "group", credit: "episode" },
    settings: { steps, seed, groupSize, groupsPerStep: groups, learningRate: 1e-4 * (1 + experiment) },
  };
  const now = started + steps * 1000;
  const status = {
    state: "finished",
    pid: 1,
    host: hostname(),
    startedAt: started,
    heartbeatAt: now,
    step: steps,
    steps,
  };
  writeFileSync(pathIn(dir, "config"), JSON.stringify(config, undefined, 2));
  writeFileSync(pathIn(dir, "status"), JSON.stringify(status));
  const [metrics, timing, events]: [string[], string[], string[]] = [[], [], []];
  let seq = 0;
  const event = (type: string, step: number, fact: object) =>
    events.push(JSON.stringify({ seq: seq++, step, type, ...fact }));
  event("start", 0, { learner: "grpo", steps });
  for (let step = 0; step <= steps; step++) {
    const evaluated = step % evaluateEvery === 0 ? evaluation(step / steps, random) : undefined;
    const numbers = { step, ...(step > 0 && stepNumbers(step, steps, random)) };
    if (step > 0) {
      event("rollouts", step, {
        requested: 32,
        completed: 32,
        failed: 0,
        lost: 0,
        refusedGroups: 0,
        droppedGroups: 0,
        replies: 96,
        sampledTokens: 2048,
      });
      event("update", step, { epoch: 0, minibatch: 0, loss: random.next(), gradNorm: random.next(), applied: true });
      event("step", step, { metrics: numbers });
      const timed = {
        step,
        rolloutMs: 1000 * random.next(),
        updateMs: 3000 * random.next(),
        tokensPerSecond: 700 + random.next(),
        otherMs: 10 * random.next(),
      };
      timing.push(JSON.stringify(timed));
    }
    if (evaluated)
      event("evaluation", step, {
        set: "selection",
        reward: {
          mean: evaluated["selection/reward"],
          low: evaluated["selection/low"],
          high: evaluated["selection/high"],
          count: 16,
        },
        parts: {},
        failed: 0,
        lost: 0,
        failures: [],
      });
    metrics.push(JSON.stringify({ ...numbers, ...evaluated }));
  }
  event("end", steps, { status: "finished" });
  for (const [file, lines] of [
    ["metrics", metrics],
    ["timing", timing],
    ["events", events],
  ] as const)
    writeFileSync(pathIn(dir, file), `${lines.join("\n")}\n`);
}

function stepNumbers(step: number, steps: number, random: Random): Record<string, number> {
  const noise = (centre: number, width: number) => centre + width * (random.next() - 0.5);
  const learnt = 1 - Math.exp((-3 * step) / steps);
  const reward = noise(0.3 + 0.5 * learnt, 0.2);
  return {
    conversations: 32,
    sampledTokens: Math.round(noise(2048, 500)),
    replies: 96,
    replyTokens: noise(21, 5),
    environmentFailures: 0,
    failedConversations: 0,
    environmentLost: 0,
    rewardFailures: 0,
    droppedGroups: 0,
    refusedGroups: 0,
    samplingRounds: 1,
    reward,
    rewardStd: noise(0.12, 0.05),
    rewardMin: reward - 0.3,
    rewardMax: reward + 0.2,
    groupStd: noise(0.1, 0.04),
    constantGroups: 0,
    truncated: noise(0.4, 0.3),
    contextFull: 0,
    "part/conciseness": noise(0.9, 0.1),
    "part/helpfulness": noise(0.7, 0.2),
    "part/politeness": noise(0.6, 0.3),
    ratio: 1,
    ratioMax: noise(1.2, 0.3),
    clipFraction: noise(0.02, 0.02),
    kl: noise(0.01, 0.01),
    learnedConversations: 32,
    entropy: noise(0.4 - 0.2 * learnt, 0.1),
    firstRatioMax: 1,
    approxKl: noise(0.01, 0.01),
    loss: noise(0.02, 0.02),
    gradNorm: noise(0.8, 0.5),
    learningRate: 3e-4 * (1 - step / steps),
    optimiserSteps: step,
    notFinite: 0,
  };
}

function evaluation(done: number, random: Random): Record<string, number> {
  const mean = 0.4 + 0.4 * done + 0.05 * random.next();
  return {
    "selection/reward": mean,
    "selection/low": mean - 0.05,
    "selection/high": mean + 0.05,
    "selection/count": 16,
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [dir = "runs", ...numbers] = process.argv.slice(2);
  const [runs = 50, steps = 10_000, trajectories = 5000, longTokens = 100_000] = numbers.map(Number);
  await makeManyRuns(dir, { runs, steps, trajectories, longTokens });
}

/** One run: a real model before or after LoRA training on a task, measured on what training never saw. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { ConversationEnvironment, evaluate, MultiTurnAgent, train } from "stateset-agents";
import { peakMemory } from "./peak-memory.ts";
import { type RealScenario, type RealTask, signed, type TaskName, tasks, type VariantName, variants } from "./task.ts";

export interface LearnJob {
  part: "learn";
  /** The model's file or folder, by name alone: where it lies is the machine's business. */
  model: string;
  task: TaskName;
  variant: VariantName;
  /** 0: the model as it came. */
  steps: number;
  seed: number;
  sign: 1 | -1;
  /** Measures on the scenarios that settings are chosen with. */
  tuning?: true;
  /** Fewer scenarios and samples, for a look. */
  quick?: true;
  /** Default: the embedded one. */
  engine?: "torch";
}

/** Of one set of scenarios; in their order. */
export interface Scores {
  /** Of the greedy reply. */
  greedy: number[];
  greedyPass: number[];
  /** Means over the sampled replies, at the temperature of training. */
  sampled: number[];
  sampledPass: number[];
  /** 1 where one of them was right. */
  anyPass: number[];
}

export interface LearnResult {
  tests: Record<string, Scores>;
  /** Mean reward of each step. */
  rewards: number[];
  conversations: number;
  /** Sampled in training. */
  tokens: number;
  trainingSeconds: number;
  evaluationSeconds: number;
  peakBytes: number;
  /** Of the whole model, and of what was trained. */
  parameters: number;
  trainable: number;
}

export const samplesPerScenario = 8;
const quickScenarios = 8;

export function labelOf({ task, variant, steps, seed, sign }: LearnJob): string {
  if (steps === 0) return `${task}, untrained`;
  return `${task}, ${variant}, seed ${seed}${sign === 1 ? "" : ", flipped"}`;
}

/** Kept, so that on a machine that is lent for minutes a run that was cut short goes on from its last checkpoint. */
function folderOf(job: LearnJob): string {
  const parts = [job.model, job.task, job.variant, job.steps, job.seed, job.sign === 1 ? "right" : "flipped"];
  if (job.engine) parts.push(job.engine);
  return join(process.env.STATESET_REAL_RUNS!, parts.join("_"));
}

export async function learnReal(job: LearnJob): Promise<LearnResult> {
  const { task: name, variant, steps, seed, sign, tuning, quick, engine } = job;
  const task: RealTask = tasks[name];
  const agent = new MultiTurnAgent({
    model: process.env.STATESET_REAL_MODEL!,
    lora: true,
    ...(engine ? { engine } : { threads: Number(process.env.STATESET_REAL_THREADS ?? 2) }),
    sampling: { maxTokens: task.maxTokens },
  });
  await agent.initialize();
  const { parameters, trainableParameters: trainable } = agent.policy.model;
  const rewards: number[] = [];
  let conversations = 0;
  let tokens = 0;
  let trainingSeconds = 0;
  if (steps > 0) {
    const folder = folderOf(job);
    const begun = existsSync(join(folder, "checkpoints", "last"));
    const { run } = await train({
      ...task.options,
      ...variants[variant],
      steps,
      seed,
      agent,
      environment: new ConversationEnvironment({ scenarios: task.training(), maxTurns: 1 }),
      reward: signed(task.reward, sign),
      checkpoint: { every: 5, keep: 1 },
      ...(begun ? { resumeFrom: folder } : { dir: folder }),
      callbacks: {
        onStepEnd: ({ step, metrics }) => console.error(`${labelOf(job)}, step ${step}/${steps}: ${metrics.reward}`),
      },
    });
    for (const { reward = 0, conversations: played = 0, sampledTokens = 0 } of run.metrics) {
      rewards.push(rounded(sign === 1 ? reward : 1 - reward));
      conversations += played;
      tokens += sampledTokens;
    }
    trainingSeconds = timeOf(folder);
  }
  const evaluationStart = performance.now();
  const tests: Record<string, Scores> = {};
  const sets = tuning ? { tuning: task.tuning } : task.tests;
  for (const [set, scenarios] of Object.entries(sets)) {
    const asked = quick ? scenarios().slice(0, quickScenarios) : scenarios();
    tests[set] = await measure(agent, task, asked, quick ? 2 : samplesPerScenario);
  }
  const evaluationSeconds = seconds(evaluationStart);
  await agent.close();
  return {
    ...{ tests, rewards, conversations, tokens, trainingSeconds, evaluationSeconds },
    ...{ peakBytes: peakMemory(), parameters, trainable },
  };
}

/** The seeds of replies are the same for every run: they are compared in pairs. */
async function measure(
  agent: MultiTurnAgent,
  { reward, passes, maxTokens }: RealTask,
  scenarios: readonly RealScenario[],
  samples: number,
): Promise<Scores> {
  const environment = new ConversationEnvironment({ scenarios, maxTurns: 1 });
  const scored = async (temperature: number, count: number) => {
    const sampling = { temperature, maxTokens };
    const { groups } = await evaluate({ agent, environment, reward, samples: count, seed: 0, sampling });
    return groups.map(({ trajectories }) => trajectories.map((one) => one.reward.score));
  };
  const passed = (scores: readonly number[]) => scores.filter((score) => score >= passes).length / scores.length;
  const mean = (scores: readonly number[]) => scores.reduce((a, b) => a + b, 0) / scores.length;
  const greedy = await scored(0, 1);
  const sampled = await scored(1, samples);
  return {
    greedy: greedy.map(mean).map(rounded),
    greedyPass: greedy.map(passed),
    sampled: sampled.map(mean).map(rounded),
    sampledPass: sampled.map(passed).map(rounded),
    anyPass: sampled.map((scores) => (passed(scores) > 0 ? 1 : 0)),
  };
}

/** By the clock, from before a run was cut short too. */
function timeOf(folder: string): number {
  const steps = readFileSync(join(folder, "timing.jsonl"), "utf8").trim().split("\n");
  const ms = steps.flatMap((line) => {
    const { rolloutMs, updateMs, otherMs } = JSON.parse(line) as Record<string, number>;
    return [rolloutMs!, updateMs!, otherMs!];
  });
  return Number((ms.reduce((a, b) => a + b, 0) / 1000).toFixed(1));
}

const rounded = (value: number) => Number(value.toFixed(4));
const seconds = (since: number) => Number(((performance.now() - since) / 1000).toFixed(1));

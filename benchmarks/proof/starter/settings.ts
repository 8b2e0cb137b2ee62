import { algorithmDefaults, algorithmNames } from "../../../packages/stateset-agents/src/algorithm/algorithms.ts";
import { resolveConfig } from "../../../packages/stateset-agents/src/training/config.ts";
import { defaultsStamp, starterRate } from "../../defaults.ts";
import type { Harvesting } from "../best-of-n.ts";
import type { StarterJob } from "./measure.ts";
import { maxTokens, type TaskName, tasks } from "./tasks.ts";

export const systemPrompt = "You are a helpful customer support agent.";

/** Few, so that several hundred runs take a quarter of an hour on 16 cores; a conversation of "delayed" costs three times the others. */
export const steps: Record<TaskName, number> = { echo: 30, delayed: 12, classes: 30 };

/** Conversations of each held-out scenario: of the untrained model, which every run is compared with, and after a run. */
export const evaluationSamples = { untrained: 16, trained: 4 };

/** Those with a clip or a gate, which does nothing until a rollout is used more than once, get four passes on this task. */
export const passes = {
  task: "delayed",
  updatesPerRollout: 4,
  algorithms: algorithmNames.filter((name) => {
    const own = algorithmDefaults(name) as { epsilonHigh?: number; ratioCap?: number; tauNegative?: number };
    return (own.epsilonHigh ?? own.ratioCap ?? own.tauNegative) !== undefined;
  }),
} as const;

const { groupsPerStep, groupSize } = resolveConfig();
export const conversationsPerStep = groupsPerStep * groupSize;

/** Rates that SFT and GRPO were tried with, and which was best, by rounds. They are named in each job, so that another one renews its own rows alone. */
export const triedRates = [1e-4, 3e-4, 1e-3];
export const rates: Readonly<Record<number, number>> = { 1: 1e-3, 3: 1e-3, 10: 1e-3 };
export const tunedRate = 1e-3;
export const rounds = Object.keys(rates).map(Number);

/** SFT on the best of as many conversations as GRPO has, with twice its updates; an eighth is kept. */
export function harvestingOf(task: TaskName, inRounds: number, learningRate: number): Harvesting {
  const n = Math.max(2, Math.ceil((steps[task] * conversationsPerStep) / inRounds / tasks[task].training.length));
  const updates = Math.ceil((2 * steps[task]) / inRounds);
  return { rounds: inRounds, n, keep: Math.max(1, Math.round(n / 8)), updates, learningRate };
}

export const baselineName = (inRounds: number) => (inRounds === 1 ? "sft-best-of-n" : `sft-best-of-n-${inRounds}`);

/** What a training was given beside its job. Results measured with other settings than these are not shown beside new ones. */
export function settingsOf({ task: name, learner }: Pick<StarterJob, "task" | "learner">): unknown {
  // The title says how a task is scored; the source of a function would differ between a bundle and this.
  const { title, training, heldOut, maxTurns } = tasks[name];
  const task = { title, training, heldOut, maxTurns, steps: steps[name] };
  const defaults =
    learner.by === "nothing" ? "" : defaultsStamp(learner.by === "best-of-n" ? undefined : learner.algorithm);
  // A step of TRPO has no rate.
  const atDefaultRate = (learner.by === "defaults" || learner.by === "passes") && learner.algorithm !== "trpo";
  return { task, systemPrompt, maxTokens, evaluationSamples, defaults, ...(atDefaultRate && { starterRate }) };
}

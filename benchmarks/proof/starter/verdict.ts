import { type PairedResult, pairedTest } from "stateset-agents/telemetry";
import { baselineLearner, type Learner, type StarterJob, type StarterResult } from "./measure.ts";
import { baselineName, rounds } from "./settings.ts";
import { type TaskName, tasks } from "./tasks.ts";

/** A training and what came of it. */
export type StarterRun = Omit<StarterJob, "part"> & StarterResult & { cpuSeconds: number; settings: string };

export interface StarterVerdict {
  before: number;
  after: number;
  /** After training, seed by seed. */
  bySeed: number[];
  /** Two-sided, over the held-out scenarios in pairs, each the mean over the seeds. */
  pValue: number;
  /** The mean is above that of the untrained model beyond chance, and so is that of every seed. */
  rises: boolean;
  /** With the reward's sign flipped; missing where that was not run. */
  flipped?: { after: number; pValue: number; falls: boolean };
  /** Of each class of scenarios, where the task has some. */
  classes: Record<string, { before: number; after: number; flipped: number | undefined }>;
  runs: StarterRun[];
}

const level = 0.95;
export const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** What one learner did on one task; undefined until it and the untrained model have been measured. */
export function judgeStarter(
  runs: readonly StarterRun[],
  task: TaskName,
  learner: Learner,
): StarterVerdict | undefined {
  const untrained = find(runs, task, { by: "nothing" }, 1)[0]?.scenarios;
  const right = find(runs, task, learner, 1);
  const wrong = find(runs, task, learner, -1);
  if (!untrained || right.length === 0) return undefined;
  const [after, down] = [right, wrong].map((some) => overSeeds(some.map(({ scenarios }) => scenarios)));
  const before = mean(untrained);
  const up = pairedTest(untrained, after!, { level });
  const fall = wrong.length > 0 ? pairedTest(untrained, down!, { level }) : undefined;
  const topics = [...new Set(tasks[task].heldOut.flatMap(({ topic }) => topic ?? []))];
  return {
    before,
    after: mean(after!),
    bySeed: right.map(({ scenarios }) => mean(scenarios)),
    pValue: up.pValue,
    rises: up.verdict === "b" && right.every(({ scenarios }) => mean(scenarios) > before),
    ...(fall && {
      flipped: {
        after: mean(down!),
        pValue: fall.pValue,
        falls: fall.verdict === "a" && wrong.every(({ scenarios }) => mean(scenarios) < before),
      },
    }),
    classes: Object.fromEntries(
      topics.map((topic) => {
        const of = (scores: readonly number[]) =>
          mean(scores.filter((_, i) => tasks[task].heldOut[i]!.topic === topic));
        return [topic, { before: of(untrained), after: of(after!), flipped: fall && of(down!) }];
      }),
    ),
    runs: right,
  };
}

/** How one learner fares against SFT on best-of-N: over scenarios, in pairs, each the mean over the seeds. */
export function againstBestOfN(
  runs: readonly StarterRun[],
  task: TaskName,
  learner: Learner,
): Record<string, PairedResult> {
  const own = find(runs, task, learner, 1);
  const found = rounds.flatMap((inRounds) => {
    const other = find(runs, task, baselineLearner(inRounds), 1);
    if (own.length === 0 || other.length === 0) return [];
    const [a, b] = [other, own].map((some) => overSeeds(some.map(({ scenarios }) => scenarios)));
    return [[baselineName(inRounds), pairedTest(a!, b!, { level })] as const];
  });
  return Object.fromEntries(found);
}

export function find(runs: readonly StarterRun[], task: TaskName, learner: Learner, sign: 1 | -1): StarterRun[] {
  const wanted = JSON.stringify(learner);
  return runs
    .filter((run) => run.task === task && run.sign === sign && JSON.stringify(run.learner) === wanted)
    .sort((a, b) => a.seed - b.seed);
}

/** Each scenario's mean over the seeds. */
function overSeeds(bySeed: readonly (readonly number[])[]): number[] {
  return (bySeed[0] ?? []).map((_, i) => mean(bySeed.map((scores) => scores[i]!)));
}

/** Which trainings the proof is made of. */
import { algorithmNames } from "../../packages/stateset-agents/src/algorithm/algorithms.ts";
import { type LettersJob, type Measured, measure } from "./measure.ts";
import * as letters from "./settings.ts";
import {
  baselineLearner,
  type Learner,
  measureStarter,
  passLearners,
  type StarterJob,
  type StarterResult,
  tunedLearner,
} from "./starter/measure.ts";
import { baselineName, passes, rounds, settingsOf as starterSettings, triedRates } from "./starter/settings.ts";
import { type TaskName, tasks } from "./starter/tasks.ts";

export type Job = LettersJob | StarterJob;
export type Result = Measured | StarterResult;

export function runJob(job: Job): Promise<Result> {
  return job.part === "letters" ? measure(job) : measureStarter(job);
}

export function settingsOf(job: Job): unknown {
  return job.part === "letters" ? letters.settingsOf(job) : starterSettings(job);
}

/** Rows of the letters' table, in their order. */
export const learners = [...Object.keys(letters.algorithms), ...Object.keys(letters.baselines)];
export const taskNames = Object.keys(tasks) as TaskName[];
const signs = [1, -1] as const;

export interface Wanted {
  names: readonly string[];
  seeds: readonly number[];
}

export function lettersJobs({ names, seeds }: Wanted): LettersJob[] {
  const clip = names.includes("grpo") ? Object.keys(letters.clipPair) : [];
  const both = names.flatMap((learner) => signs.map((sign) => ({ learner, sign })));
  return [...both, ...clip.map((learner) => ({ learner, sign: 1 as const }))].flatMap((one) =>
    seeds.map((seed): LettersJob => ({ part: "letters", ...one, seed })),
  );
}

/** The longest first, so that no process is left alone with one at the end. */
export function starterJobs({ names, seeds }: Wanted, which: readonly TaskName[]): StarterJob[] {
  const trained = (task: TaskName, learner: Learner, ofSigns: readonly (1 | -1)[]) =>
    seeds.flatMap((seed) => ofSigns.map((sign): StarterJob => ({ part: "starter", task, learner, seed, sign })));
  const ordered = [...which].sort((a, b) => tasks[b].maxTurns - tasks[a].maxTurns);
  return [
    ...ordered
      .filter((task) => task === passes.task)
      .flatMap((task) =>
        passLearners.flatMap((one) =>
          one.by === "passes" && names.includes(one.algorithm) ? trained(task, one, [1]) : [],
        ),
      ),
    ...ordered.flatMap((task) => [
      ...algorithmNames
        .filter((name) => names.includes(name))
        .flatMap((algorithm) => trained(task, { by: "defaults", algorithm }, signs)),
      ...(names.includes("grpo") ? trained(task, tunedLearner, signs) : []),
      ...rounds
        .filter((inRounds) => names.includes(baselineName(inRounds)))
        .flatMap((inRounds) => trained(task, baselineLearner(inRounds), [1])),
    ]),
    ...which.map((task): StarterJob => ({ part: "starter", task, learner: { by: "nothing" }, seed: 0, sign: 1 })),
  ];
}

/** The baselines, and on the starter model GRPO, at every rate, with the seeds for trying out. */
export function tuningJobs(): { letters: LettersJob[]; starter: StarterJob[] } {
  const seeds = letters.tuningSeeds;
  return {
    letters: Object.keys(letters.baselines).flatMap((learner) =>
      letters.triedRates.flatMap((rate) =>
        seeds.map((seed): LettersJob => ({ part: "letters", learner, seed, sign: 1, rate })),
      ),
    ),
    starter: taskNames.flatMap((task) =>
      triedRates
        .flatMap((rate): Learner[] => [
          { by: "tuned", algorithm: "grpo", rate },
          ...rounds.map((inRounds) => ({ by: "best-of-n" as const, rounds: inRounds, rate })),
        ])
        .flatMap((learner) => seeds.map((seed): StarterJob => ({ part: "starter", task, learner, seed, sign: 1 }))),
    ),
  };
}

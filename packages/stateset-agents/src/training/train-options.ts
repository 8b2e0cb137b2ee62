import type { z } from "zod";
import type { Agent } from "../agent/agent.ts";
import type { Algorithm } from "../algorithm/algorithm.ts";
import { type AlgorithmConfig, algorithmNames, optionNames, splitAlgorithmConfig } from "../algorithm/algorithms.ts";
import type { schemas } from "../algorithm/options.ts";
import type { Environment } from "../environment/environment.ts";
import type { ConversationScenario, Scenario } from "../environment/scenario.ts";
import { StatesetError } from "../error.ts";
import type { RewardFunction } from "../reward/reward-function.ts";
import type { Tracker } from "../run/tracker.ts";
import { didYouMean } from "../suggest.ts";
import type { TrainingCallbacks } from "./callbacks.ts";
import { type TrainingOptions, trainingConfigSchema } from "./config.ts";
import type { ProfileName } from "./profiles.ts";

/**
 * Which algorithm, with its own options beside it: `{ algorithm: "dapo", epsilonHigh: 0.3 }`. Left out: GRPO.
 * An option of another algorithm is a type error and a runtime error. An `Algorithm` from defineAlgorithm() works too.
 */
export type AlgorithmChoice =
  | AlgorithmConfig
  | (Omit<GrpoOptions, "algorithm"> & { algorithm?: undefined } & NotOf<GrpoOptions>)
  | ({ algorithm: Algorithm } & NotOf<{ algorithm: unknown }>);

type GrpoOptions = z.input<(typeof schemas)["grpo"]>;
type KeysOf<T> = T extends unknown ? keyof T : never;
/** Every algorithm's option but these, refused. */
type NotOf<T> = { [K in Exclude<KeysOf<AlgorithmConfig>, keyof T>]?: undefined };

/** The parts of a run that are not plain data, and where it is kept. */
export interface TrainParts<A extends Agent = Agent> {
  agent: A;
  environment: Environment;
  /** Left out: the environment's own rewards, added up. */
  reward?: RewardFunction | undefined;
  profile?: ProfileName | undefined;
  /** Scenarios that training never sees, for evaluations; played in the same environment unless one with its own is given. */
  heldOut?: Environment | readonly (Scenario | ConversationScenario)[] | undefined;
  callbacks?: TrainingCallbacks | readonly TrainingCallbacks[] | undefined;
  trackers?: readonly Tracker[] | undefined;
  /** The run's name; its folder is `runs/<name>`. Default: the algorithm and the time. */
  name?: string | undefined;
  /** The run's folder, instead of `runs/<name>`. False: nothing is kept, and the run cannot be resumed. */
  dir?: string | false | undefined;
  /** Also write the trained agent here (Hugging Face layout and agent.json). */
  savePath?: string | undefined;
  /** A run's folder, or one of its checkpoints: go on from there. Options that are left out are those of that run. */
  resumeFrom?: string | undefined;
  /** Aborting it finishes the step under way, saves, and returns with status "interrupted". */
  signal?: AbortSignal | undefined;
}

export type TrainOptions<A extends Agent = Agent> = TrainParts<A> & TrainingOptions & AlgorithmChoice;

const partNames: readonly (keyof TrainParts)[] = [
  "agent",
  "environment",
  "reward",
  "profile",
  "heldOut",
  "callbacks",
  "trackers",
  "name",
  "dir",
  "savePath",
  "resumeFrom",
  "signal",
];

export interface SplitOptions<A extends Agent> {
  parts: TrainParts<A>;
  training: TrainingOptions;
  /** The options of one, its name among them where it was given; undefined: neither. */
  algorithm: Record<string, unknown> | Algorithm | undefined;
}

/** Sorts the one options object of train() into its three parts. Unknown keys are named, with the nearest valid one. */
export function splitOptions<A extends Agent>(options: TrainOptions<A>): SplitOptions<A> {
  const parts: Record<string, unknown> = {};
  const rest: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined) continue;
    ((partNames as readonly string[]).includes(key) ? parts : rest)[key] = value;
  }
  for (const required of ["agent", "environment"] as const) {
    if (parts[required] === undefined)
      throw new StatesetError("INVALID_OPTION", `train() needs the option "${required}".`);
  }
  const { algorithm: chosen, rest: training } = splitAlgorithmConfig(rest);
  const known = Object.keys(trainingConfigSchema.shape);
  for (const key of Object.keys(training)) {
    if (known.includes(key)) continue;
    const own = typeof chosen.algorithm === "string" ? chosen.algorithm : "grpo";
    const algorithmOptions = algorithmNames.filter((name) => name === own).flatMap(optionNames);
    throw new StatesetError("INVALID_OPTION", `Unknown option "${key}" in train().`, {
      hint: didYouMean(key, [...known, ...partNames, "algorithm", ...algorithmOptions]),
    });
  }
  return { parts: parts as unknown as TrainParts<A>, training, algorithm: algorithmOf(chosen) };
}

function algorithmOf(chosen: Record<string, unknown>): SplitOptions<Agent>["algorithm"] {
  const { algorithm, ...own } = chosen;
  if (typeof algorithm === "object" && algorithm !== null) {
    const stray = Object.keys(own)[0];
    if (stray === undefined) return algorithm as Algorithm;
    throw new StatesetError("INVALID_OPTION", `"${stray}" cannot be given beside an Algorithm object in train().`, {
      hint: "Give it to defineAlgorithm() or createAlgorithm() instead.",
    });
  }
  return Object.keys(chosen).length === 0 ? undefined : chosen;
}

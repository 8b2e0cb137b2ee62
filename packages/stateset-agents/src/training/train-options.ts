import type { Agent } from "../agent/agent.ts";
import { type AlgorithmChoice, type ChosenAlgorithm, splitChoice } from "../algorithm/algorithm-choice.ts";
import { algorithmNames, optionNames } from "../algorithm/algorithms.ts";
import type { Environment } from "../environment/environment.ts";
import type { ConversationScenario, Scenario } from "../environment/scenario.ts";
import { StatesetError } from "../error.ts";
import type { Harness } from "../harness/harness.ts";
import { optionPaths } from "../options.ts";
import type { RewardFunction } from "../reward/reward-function.ts";
import { requireParts } from "../rollout/parts.ts";
import { placeShape, type RunPlace } from "../run/place.ts";
import { type Tracker, trackersProblem } from "../run/tracker.ts";
import { didYouMean } from "../suggest.ts";
import type { TrainingCallbacks } from "./callbacks.ts";
import { type TrainingOptions, trainingConfigSchema } from "./config.ts";
import type { ProfileName } from "./profiles.ts";

/** The parts of a run that are not plain data, and where it is kept. */
export interface TrainParts<A extends Agent = Agent> extends RunPlace {
  agent: A;
  /** Who drives the conversations; or a harness does. */
  environment?: Environment | undefined;
  /** An agent of your own that drives its conversations itself, in place of an environment: see defineHarness(). */
  harness?: Harness | undefined;
  /** Left out: the rewards of the environment, added up, or of the harness. */
  reward?: RewardFunction | undefined;
  profile?: ProfileName | undefined;
  /** Scenarios that training never sees, for evaluations; played in the same environment or harness unless an environment with its own is given. */
  heldOut?: Environment | readonly (Scenario | ConversationScenario)[] | undefined;
  callbacks?: TrainingCallbacks | readonly TrainingCallbacks[] | undefined;
  /** Shows how it goes on stderr: the live view on a terminal, a line a step elsewhere. Default false. */
  progress?: boolean | undefined;
  trackers?: readonly Tracker[] | undefined;
  /** Also write the trained agent here (Hugging Face layout and agent.json). */
  savePath?: string | undefined;
  /**
   * Aborting it stops the run within a decoding step: what was sampled of the step under way is dropped, the run is saved as the last
   * finished step left it, and train() returns with status "interrupted". An update that has begun is finished first.
   */
  signal?: AbortSignal | undefined;
}

export type TrainOptions<A extends Agent = Agent> = TrainParts<A> & TrainingOptions & AlgorithmChoice;

const partNames: readonly (keyof TrainParts)[] = [
  "agent",
  "environment",
  "harness",
  "reward",
  "profile",
  "heldOut",
  "callbacks",
  "progress",
  "trackers",
  "savePath",
  "signal",
  ...(Object.keys(placeShape) as (keyof RunPlace)[]),
];

export interface SplitOptions<A extends Agent> {
  parts: TrainParts<A>;
  training: TrainingOptions;
  algorithm: ChosenAlgorithm;
}

/** Sorts the one options object of train() into its three parts. Unknown keys are named, with the nearest valid one. */
export function splitOptions<A extends Agent>(options: TrainOptions<A>): SplitOptions<A> {
  const parts: Record<string, unknown> = {};
  const rest: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(options)) {
    if (value === undefined) continue;
    ((partNames as readonly string[]).includes(key) ? parts : rest)[key] = value;
  }
  requireParts(parts, "train()");
  const problem = parts.trackers === undefined ? undefined : trackersProblem(parts.trackers);
  if (![undefined, true, false].includes(parts.progress as boolean | undefined)) {
    throw new StatesetError("INVALID_OPTION", 'The option "progress" of train() is true or false.', {
      hint: "createLiveView() of stateset-agents/telemetry, given as a callback, writes it elsewhere.",
    });
  }
  if (problem !== undefined) throw new StatesetError("INVALID_OPTION", `The option "trackers" of train() ${problem}.`);
  const { chosen, rest: training } = splitChoice(rest, "train()");
  const known = Object.keys(trainingConfigSchema.shape);
  for (const key of Object.keys(training)) {
    if (known.includes(key)) continue;
    const named = (chosen as { algorithm?: unknown } | undefined)?.algorithm;
    const own = typeof named === "string" ? named : "grpo";
    const algorithmOptions = algorithmNames.filter((name) => name === own).flatMap(optionNames);
    throw new StatesetError("INVALID_OPTION", `Unknown option "${key}" in train().`, {
      hint: didYouMean(key, [...optionPaths(trainingConfigSchema), ...partNames, "algorithm", ...algorithmOptions]),
    });
  }
  return { parts: parts as unknown as TrainParts<A>, training, algorithm: chosen };
}

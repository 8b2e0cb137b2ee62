/** Rewards that a configuration names instead of building them in code: built-ins, verifiers, judges, reward models, files. */

import { existsSync } from "node:fs";
import { basename, extname, join, resolve } from "node:path";
import { StatesetError } from "../error.ts";
import { loadNeuralReward, type NeuralRewardOptions } from "../preference/neural-reward.ts";
import { ConcisenessReward } from "../reward/builtin/conciseness.ts";
import { CorrectnessReward } from "../reward/builtin/correctness.ts";
import { EngagementReward } from "../reward/builtin/engagement.ts";
import { EnvironmentReward } from "../reward/builtin/environment.ts";
import { HelpfulnessReward } from "../reward/builtin/helpfulness.ts";
import { PolitenessReward } from "../reward/builtin/politeness.ts";
import { SafetyReward } from "../reward/builtin/safety.ts";
import { SimilarityAwareReward } from "../reward/builtin/similarity-aware.ts";
import { TaskCompletionReward } from "../reward/builtin/task-completion.ts";
import { CachedReward } from "../reward/cached-reward.ts";
import { CompositeReward } from "../reward/composite-reward.ts";
import { type RewardFn, rewardFunction } from "../reward/define-reward.ts";
import { RewardFunction, type RewardOptions } from "../reward/reward-function.ts";
import { StateReward } from "../reward/state-reward.ts";
import { ToolUseReward } from "../reward/tool-use-reward.ts";
import { ExactMatchReward } from "../reward/verifier/exact-match.ts";
import { NumericAnswerReward } from "../reward/verifier/numeric-answer.ts";
import { type PatternOptions, PatternReward } from "../reward/verifier/pattern.ts";
import { ToolCallReward } from "../reward/verifier/tool-call.ts";
import { didYouMean } from "../suggest.ts";
import { importFile, namesCode } from "./import-file.ts";
import { type JudgePart, judgeFromPart } from "./judge-part.ts";
import { camelCase } from "./plain-config.ts";

const classes = {
  politeness: PolitenessReward,
  conciseness: ConcisenessReward,
  helpfulness: HelpfulnessReward,
  safety: SafetyReward,
  engagement: EngagementReward,
  environment: EnvironmentReward,
  correctness: CorrectnessReward,
  taskCompletion: TaskCompletionReward,
  similarity: SimilarityAwareReward,
  exactMatch: ExactMatchReward,
  numericAnswer: NumericAnswerReward,
  toolCall: ToolCallReward,
  toolUse: ToolUseReward,
  state: StateReward,
} as const;

type Classes = typeof classes;
type ClassName = keyof Classes;

/** PatternReward's, with the expression as text where the file holds no code. */
export type PatternPart = Omit<PatternOptions, "pattern"> & {
  pattern: RegExp | string;
  /** Of an expression that is text: `i` ignores case. */
  flags?: string;
};

/** What `stateset-agents reward-model` trained. */
export type RewardModelPart = NeuralRewardOptions & {
  /** Its run, or a folder that NeuralReward.save() wrote. */
  path: string;
};

type OneOrMore<T> = T | readonly T[];

/** Rewards by name, each with its weight or with its options; a list of options makes several of a kind. */
export type RewardParts = {
  [Name in ClassName]?: number | OneOrMore<NonNullable<ConstructorParameters<Classes[Name]>[0]>>;
} & {
  pattern?: OneOrMore<PatternPart>;
  /** An AI judge behind an OpenAI-compatible endpoint. */
  judge?: OneOrMore<JudgePart>;
  rewardModel?: string | OneOrMore<RewardModelPart>;
  /** A file whose default export is a reward, by its path, with its weight. */
  [file: `./${string}` | `../${string}`]: number;
};

export const rewardNames = [...(Object.keys(classes) as ClassName[]), "pattern", "judge", "rewardModel"] as const;

/** Where a part of a configuration stands: the folder its paths are relative to, and words for messages. */
export interface PartPlace {
  dir: string;
  where: string;
}

/** A reward as a configuration gives it: built, as a file of code, or as names with weights and options. */
export async function rewardFrom(
  given: RewardFunction | string | RewardParts,
  place: PartPlace,
): Promise<RewardFunction> {
  if (given instanceof RewardFunction) return given;
  if (typeof given === "string") {
    return namesCode(given) ? rewardOfFile(given, undefined, place) : rewardFrom({ [given]: 1 } as RewardParts, place);
  }
  if (typeof given !== "object" || given === null) {
    throw new StatesetError("INVALID_OPTION", `The ${place.where} is no reward.`, {
      hint: "Write names with weights, { politeness: 0.5 }, the path of a file, ./reward.ts, or a RewardFunction.",
    });
  }
  const parts: RewardFunction[] = [];
  try {
    for (const [name, value] of Object.entries(given)) {
      for (const one of [value].flat()) parts.push(await partNamed(name, one, place));
    }
    return new CompositeReward(parts);
  } catch (error) {
    await closeReward(parts);
    throw error;
  }
}

async function partNamed(name: string, value: unknown, place: PartPlace): Promise<RewardFunction> {
  if (namesCode(name)) return rewardOfFile(name, weightOf(name, value, place), place);
  const plain = name.toLowerCase().replace(/[-_]/g, "");
  const known = rewardNames.find((candidate) => candidate.toLowerCase() === plain);
  if (!known) {
    throw new StatesetError("INVALID_OPTION", `Unknown reward "${name}" in ${place.where}.`, {
      hint: didYouMean(name, rewardNames),
    });
  }
  if (known === "rewardModel" && typeof value === "string") return rewardModelOf({ path: value }, place);
  const bare = known === "pattern" || known === "judge" || known === "rewardModel";
  const options = bare ? optionsOf(name, value, place) : withWeight(name, value, place);
  if (known === "pattern") return patternOf(options as PatternPart);
  if (known === "judge") return judgeFromPart(options, place);
  if (known === "rewardModel") return rewardModelOf(options as unknown as RewardModelPart, place);
  return new classes[known](options as never);
}

function withWeight(name: string, value: unknown, place: PartPlace): Record<string, unknown> {
  return typeof value === "object" ? optionsOf(name, value, place) : { weight: weightOf(name, value, place) };
}

function weightOf(name: string, value: unknown, { where }: PartPlace): number {
  if (typeof value === "number") return value;
  throw new StatesetError("INVALID_OPTION", `The weight of reward "${name}" in ${where} is not a number.`);
}

/** Options may be in snake_case; what they hold is the user's own. */
function optionsOf(name: string, value: unknown, { where }: PartPlace): Record<string, unknown> {
  if (typeof value !== "object" || value === null) {
    throw new StatesetError("INVALID_OPTION", `The reward "${name}" in ${where} needs its options.`, {
      hint: `Write ${name}: { … } with what docs/guides/rewards.md lists.`,
    });
  }
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [camelCase(key), inner]));
}

function patternOf({ pattern, flags, ...rest }: PatternPart): RewardFunction {
  if (pattern instanceof RegExp && flags === undefined) return new PatternReward({ ...rest, pattern });
  let compiled: RegExp;
  try {
    compiled = new RegExp(pattern, flags);
  } catch (error) {
    throw new StatesetError("INVALID_OPTION", `The reward "pattern" has no regular expression: ${String(pattern)}.`, {
      hint: "Give `pattern`, and in `flags` what would follow the closing slash.",
      cause: error,
    });
  }
  return new PatternReward({ ...rest, pattern: compiled });
}

/** A run keeps its reward model in `final/`. */
async function rewardModelOf(
  { path, ...options }: RewardModelPart,
  { dir, where }: PartPlace,
): Promise<RewardFunction> {
  if (typeof path !== "string") {
    throw new StatesetError("INVALID_OPTION", `The reward model in ${where} has no path.`, {
      hint: "Write rewardModel: runs/NAME, or { path: runs/NAME, weight: 1 }.",
    });
  }
  const folder = resolve(dir, path);
  return loadNeuralReward(existsSync(join(folder, "final")) ? join(folder, "final") : folder, options);
}

async function rewardOfFile(path: string, weight: number | undefined, place: PartPlace): Promise<RewardFunction> {
  const file = resolve(place.dir, path);
  const value = await importFile(file, place.where);
  const named: RewardOptions = weight === undefined ? {} : { weight };
  if (value instanceof RewardFunction) {
    if (weight === undefined) return value;
    return new CompositeReward([value], { name: value.name, weight });
  }
  if (typeof value === "function") {
    // A function without a name of its own is called so by what loads it.
    const name = /^_?default$|^$/.test(value.name) ? basename(file, extname(file)) : value.name;
    return rewardFunction({ ...named, name }, value as RewardFn);
  }
  throw new StatesetError("INVALID_DATA", `${file} exports no reward.`, {
    hint: "Its default export must be a RewardFunction, or a function of a conversation that returns a number.",
  });
}

/** Reward models hold a model of their own. */
export async function closeReward(reward: RewardFunction | readonly RewardFunction[] | undefined): Promise<void> {
  const parts = (one: RewardFunction): RewardFunction[] => {
    if (one instanceof CachedReward) return parts(one.reward);
    return one instanceof CompositeReward ? one.parts.flatMap((part) => parts(part.reward)) : [one];
  };
  const open = [reward ?? []].flat().flatMap((one) => parts(one as RewardFunction));
  await Promise.allSettled(open.map((one) => (one as { close?: () => Promise<void> }).close?.()));
}

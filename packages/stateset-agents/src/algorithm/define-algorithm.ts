import { StatesetError } from "../error.ts";
import { didYouMean } from "../suggest.ts";
import { withGroupTokens } from "./advantage/batch.ts";
import { groupAdvantages } from "./advantage/group.ts";
import type {
  AdvantageFunction,
  Advantages,
  Algorithm,
  LossFunction,
  LossResult,
  LossSequence,
  Needs,
} from "./algorithm.ts";
import { algorithmNames } from "./algorithms.ts";

export interface AlgorithmDefinition
  extends Partial<Omit<Algorithm, "name" | "advantages" | "loss">>,
    Pick<Algorithm, "name"> {
  /** Default: group-relative, scaled by the group's std. */
  advantages?: AdvantageFunction;
  loss: LossFunction;
}

/** Every part but those with a default above, so that a misspelt one is refused and not ignored. */
const optionalParts: Record<Exclude<keyof Algorithm, "name" | "advantages" | "loss" | "needs" | "options">, true> = {
  usesZeroAdvantages: true,
  comparesGroups: true,
  keepGroup: true,
  maxSamplingRounds: true,
  shapeReward: true,
  valueWarmupSteps: true,
  singlePass: true,
  afterUpdate: true,
  state: true,
  restore: true,
  trustRegion: true,
};

const needNames: readonly string[] = ["reference", "entropy", "values", "maxTokens"] satisfies (keyof Needs)[];

/**
 * An algorithm of your own, usable wherever a built-in one is. Its results are checked for shape on every call, so that a mistake is named
 * here and not somewhere in the engine.
 *
 * @example defineAlgorithm({ name: "plain", loss: tokenLoss(({ logprob, advantage }) => ({ loss: -advantage * logprob, slope: -advantage })) })
 */
export function defineAlgorithm(definition: AlgorithmDefinition): Algorithm {
  const { name, needs = {}, options = {}, advantages = groupAdvantages, loss, ...rest } = definition ?? {};
  const { comparesGroups = advantages === groupAdvantages } = rest;
  const fail = (message: string, hint: string): never => {
    throw new StatesetError("INVALID_OPTION", `defineAlgorithm("${name ?? ""}"): ${message}`, { hint });
  };
  for (const key of Object.keys(rest))
    if (!Object.hasOwn(optionalParts, key))
      fail(
        `there is no part "${key}".`,
        didYouMean(key, [...Object.keys(optionalParts), "name", "advantages", "loss"]),
      );
  for (const key of Object.keys(needs))
    if (!needNames.includes(key)) fail(`there is no need "${key}".`, didYouMean(key, needNames));
  if (typeof name !== "string" || name === "")
    fail("the name is missing.", "Give it a name for metrics and run files.");
  if ((algorithmNames as string[]).includes(name))
    fail("the name is that of a built-in algorithm.", "Choose another name, so that runs can be told apart.");
  if (typeof loss !== "function")
    fail("the loss is not a function.", "It takes (micro, counts) and returns a LossResult.");
  return {
    ...rest,
    comparesGroups,
    name,
    needs,
    options,
    advantages(sequences) {
      const result = advantages(sequences);
      checkAdvantages(result, sequences, name);
      return withGroupTokens(sequences, result);
    },
    loss(micro, counts) {
      const result = loss(micro, counts);
      checkLoss(result, micro, name);
      return result;
    },
  };
}

function checkAdvantages(
  result: readonly Advantages[],
  sequences: readonly { old: Float32Array }[],
  name: string,
): void {
  if (result.length !== sequences.length)
    throw wrong(`advantages() of "${name}" returned ${result.length} entries for ${sequences.length} sequences.`);
  for (const [i, { advantages, returns }] of result.entries()) {
    const tokens = sequences[i]!.old.length;
    if (advantages.length !== tokens || (returns && returns.length !== tokens))
      throw wrong(`advantages() of "${name}" gave sequence ${i} another number of tokens than the ${tokens} it has.`);
  }
}

function checkLoss(result: LossResult, micro: readonly LossSequence[], name: string): void {
  for (const [metric, value] of Object.entries(result.metrics ?? { metrics: undefined })) {
    if (typeof value?.sum === "number" && typeof value.count === "number") continue;
    throw wrong(`loss() of "${name}" returned no sum and count as its metric "${metric}".`, metricsHint);
  }
  for (const key of ["dLogprobs", "dEntropy", "dValues"] as const) {
    const derivatives = result[key];
    if (!derivatives) continue;
    if (derivatives.length !== micro.length)
      throw wrong(`loss() of "${name}" returned ${derivatives.length} ${key} for ${micro.length} sequences.`);
    for (const [i, own] of derivatives.entries())
      if (own.length !== micro[i]!.logprobs.length)
        throw wrong(
          `loss() of "${name}" returned ${own.length} numbers in ${key}[${i}] for ${micro[i]!.logprobs.length} tokens.`,
        );
  }
}

const metricsHint = "Return metrics: { <name>: { sum, count } }, or metrics: {}.";

function wrong(message: string, hint = "Return one number per token of each sequence, in order."): StatesetError {
  return new StatesetError("INVALID_DATA", message, { hint });
}

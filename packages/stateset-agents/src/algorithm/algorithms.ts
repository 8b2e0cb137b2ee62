/** The one place where a name becomes an algorithm: options, advantages and loss put together. */
import type { z } from "zod";
import { StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import { didYouMean } from "../suggest.ts";
import type { Algorithm } from "./algorithm.ts";
import { factories, type Parts } from "./factories.ts";
import { type AlgorithmName, algorithmSchema, defaultGroupSizes, schemas } from "./options.ts";

export { type AlgorithmName, algorithmSchema };

export const algorithmNames = Object.keys(schemas) as AlgorithmName[];

/** What a user writes: `{ algorithm: "dapo", epsilonHigh: 0.3 }`. Options of another algorithm are type errors. */
export type AlgorithmConfig = z.input<typeof algorithmSchema>;

/** The same with every default filled in. */
export type ResolvedAlgorithmConfig = z.output<typeof algorithmSchema>;

export function defaultGroupSize(name: string): number {
  return Object.hasOwn(defaultGroupSizes, name) ? defaultGroupSizes[name as AlgorithmName] : 8;
}

/** The options an algorithm has, without the discriminator. */
export function optionNames(name: AlgorithmName): string[] {
  return Object.keys(schemas[name].shape).filter((key) => key !== "algorithm");
}

/** Every option with its default. */
export function algorithmDefaults(name: AlgorithmName): ResolvedAlgorithmConfig {
  return resolveAlgorithm(name);
}

/** The algorithms that have an option of this name. */
export function algorithmsWith(option: string): AlgorithmName[] {
  return algorithmNames.filter((name) => optionNames(name).includes(option));
}

/**
 * Splits a flat record (a training config) into the algorithm's options and the rest. Keys that belong to any algorithm go to the
 * algorithm, so that those of another one are refused instead of ignored.
 */
export function splitAlgorithmConfig(record: Readonly<Record<string, unknown>>): {
  algorithm: Record<string, unknown>;
  rest: Record<string, unknown>;
} {
  const algorithm: Record<string, unknown> = {};
  const rest: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(record)) {
    const own = key === "algorithm" || algorithmsWith(key).length > 0;
    (own ? algorithm : rest)[key] = value;
  }
  return { algorithm, rest };
}

/** Validates a config and fills in its defaults. */
export function resolveAlgorithm(
  config: AlgorithmConfig | AlgorithmName | Record<string, unknown>,
): ResolvedAlgorithmConfig {
  const record: Record<string, unknown> = typeof config === "string" ? { algorithm: config } : { ...config };
  const name = record.algorithm;
  if (typeof name !== "string" || !Object.hasOwn(schemas, name)) {
    const hint = typeof name === "string" ? hintFor(name) : `Valid: ${algorithmNames.join(", ")}.`;
    throw new StatesetError("INVALID_OPTION", `Unknown algorithm ${JSON.stringify(name)}.`, { hint });
  }
  const own = optionNames(name as AlgorithmName);
  for (const key of Object.keys(record)) {
    if (key === "algorithm" || own.includes(key)) continue;
    const owners = algorithmsWith(key);
    if (owners.length === 0) continue;
    throw new StatesetError("INVALID_OPTION", `"${key}" is not an option of the algorithm "${name}".`, {
      hint: `It belongs to ${owners.join(", ")}; "${name}" has: ${own.join(", ")}.`,
    });
  }
  const schema = schemas[name as AlgorithmName] as z.ZodType;
  const resolved = parseOptions(schema, record, `algorithm "${name}"`) as ResolvedAlgorithmConfig;
  refuseContradictions(resolved, record);
  if ("level" in resolved) resolved.gamma ??= resolved.level === "turn" ? 0.99 : 1;
  if ("credit" in resolved && resolved.credit === "state") {
    resolved.stateWeight ??= 1;
    resolved.stateDiscount ??= 0.95;
  }
  return resolved;
}

/** What people look for under `algorithm` and find elsewhere. */
const elsewhere: Readonly<Record<string, string>> = {
  dpo: 'Use trainPreference({ loss: "dpo" }).',
  ipo: 'Use trainPreference({ loss: "ipo" }).',
  orpo: 'Use trainPreference({ loss: "orpo" }).',
  kto: 'Use trainPreference({ loss: "kto" }).',
  sft: "Use trainSupervised().",
  rlaif: "Use any algorithm with judgeReward() as its reward.",
};

function hintFor(name: string): string {
  const key = name.toLowerCase();
  return Object.hasOwn(elsewhere, key) ? elsewhere[key]! : didYouMean(name, algorithmNames);
}

/** Options that are fine alone but of which one would be ignored together with the other. */
function refuseContradictions(o: ResolvedAlgorithmConfig, given: Readonly<Record<string, unknown>>): void {
  const refuse = (message: string) => {
    throw new StatesetError("INVALID_OPTION", `algorithm "${o.algorithm}": ${message}`);
  };
  if ("rewardWeights" in o && o.rewardWeights) {
    if ("credit" in o && o.credit !== "episode") refuse(`rewardWeights and credit "${o.credit}" exclude each other.`);
    if ("klIn" in o && o.klIn === "reward" && o.beta > 0)
      refuse(`rewardWeights need the KL penalty in the loss; set klIn: "loss".`);
  }
  if ("credit" in o && o.credit !== "state")
    for (const option of ["stateWeight", "stateDiscount"] as const)
      if (o[option] !== undefined) refuse(`${option} is read with credit "state" alone.`);
  if ("nSteps" in o && o.nSteps !== null) {
    if (o.level === "turn") refuse(`nSteps counts tokens; with level "turn" leave it out.`);
    if (given.lambda !== undefined) refuse("nSteps takes the place of GAE, so lambda would do nothing; leave it out.");
  }
  if ("targetKl" in o && o.targetKl !== undefined && o.beta === 0)
    refuse("targetKl moves beta by a factor, so beta must start above 0.");
}

/** `createAlgorithm("grpo")`, `createAlgorithm({ algorithm: "dapo", epsilonHigh: 0.3 })`; an Algorithm is returned as it is. */
export function createAlgorithm(config: AlgorithmConfig | AlgorithmName | Algorithm): Algorithm {
  if (typeof config === "object" && "loss" in config && typeof config.loss === "function") return config;
  const resolved = resolveAlgorithm(config as AlgorithmConfig);
  const create = factories[resolved.algorithm] as (options: ResolvedAlgorithmConfig) => Parts;
  return { name: resolved.algorithm, options: resolved, ...create(resolved) };
}

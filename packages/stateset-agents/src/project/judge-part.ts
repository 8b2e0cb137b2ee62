/** A judge as plain data. Keys of endpoints stay in the environment: a configuration names the variable. */
import { resolve } from "node:path";
import { z } from "zod";
import { createJudge, type JudgeOptions } from "../endpoint/judge.ts";
import { type OpenAIJudgeModelOptions, openaiJudgeModel } from "../endpoint/openai-judge-model.ts";
import { StatesetError } from "../error.ts";
import { parseOptions, pick } from "../options.ts";
import { type JudgeRewardOptions, judgeReward } from "../reward/judge/judge-reward.ts";
import type { RewardFunction } from "../reward/reward-function.ts";
import { camelKeys } from "./plain-config.ts";
import type { PartPlace } from "./rewards.ts";

/** An AI judge behind an OpenAI-compatible endpoint: what it is asked, whom, and how it is asked. */
export interface JudgePart
  extends Omit<JudgeRewardOptions, "judge">,
    Omit<JudgeOptions, "model">,
    Pick<OpenAIJudgeModelOptions, "model" | "baseURL" | "extraBody"> {
  /** The environment variable that holds the key of the endpoint. Default OPENAI_API_KEY. */
  apiKeyEnv?: string;
}

/** What each of the three is told; each checks its own. */
const asked = ["rubric", "mode", "scale", "opponents", "weight", "name"] as const satisfies (keyof JudgePart)[];
const how = [
  "deterministic",
  "temperature",
  "seed",
  "maxTokens",
  "timeoutMs",
  "concurrency",
  "retry",
  "breaker",
  "budget",
  "prices",
  "cache",
] as const satisfies (keyof JudgePart)[];
const whom = ["model", "baseURL", "extraBody", "apiKeyEnv"] as const satisfies (keyof JudgePart)[];

const all = [...asked, ...how, ...whom];
const keysSchema = z.strictObject(Object.fromEntries(all.map((key) => [key, z.unknown().optional()])));

export function judgeFromPart(given: Readonly<Record<string, unknown>>, { dir, where }: PartPlace): RewardFunction {
  const place = `the judge of ${where}`;
  if ("apiKey" in given || "headers" in given) {
    throw new StatesetError("INVALID_OPTION", `${place[0]!.toUpperCase()}${place.slice(1)} is given a secret.`, {
      hint: "Put the key into an environment variable, and its name into `apiKeyEnv`.",
    });
  }
  // `base_url` is as good a way to write it.
  const spelt = Object.entries(given).map(([key, value]) => [
    all.find((known) => known.toLowerCase() === key.toLowerCase()) ?? key,
    key === "retry" || key === "breaker" ? camelKeys(key, value) : value,
  ]);
  const part = parseOptions(keysSchema, Object.fromEntries(spelt), place) as unknown as JudgePart;
  const { model, baseURL, extraBody, apiKeyEnv, cache } = part;
  const apiKey = apiKeyEnv === undefined ? undefined : process.env[apiKeyEnv];
  if (apiKeyEnv !== undefined && !apiKey) {
    throw new StatesetError(
      "INVALID_OPTION",
      `The environment variable ${apiKeyEnv}, which ${place} names, is not set.`,
      { hint: `Set it to the endpoint's key: export ${apiKeyEnv}=…` },
    );
  }
  const judge = createJudge({
    ...pick(part, how),
    ...(cache && { cache: { ...cache, file: resolve(dir, cache.file) } }),
    model: openaiJudgeModel({
      model,
      ...(baseURL !== undefined && { baseURL }),
      ...(extraBody !== undefined && { extraBody }),
      ...(apiKey !== undefined && { apiKey }),
    }),
  });
  return judgeReward({ ...pick(part, asked), judge });
}

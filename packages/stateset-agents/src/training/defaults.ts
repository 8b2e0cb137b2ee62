import { algorithmDefaults, algorithmNames, defaultGroupSize } from "../algorithm/algorithms.ts";
import { defaultTokenBudget } from "../learning/optimiser.ts";
import { type ResolveContext, resolveConfig } from "./config.ts";

/** What a run with this algorithm would be set to, had nothing been said. */
export function defaultsOf(
  algorithm: string,
  { model, policy, recompute }: Pick<ResolveContext, "model" | "policy"> & { recompute?: boolean } = {},
): Record<string, unknown> {
  const known = algorithmNames.find((name) => name === algorithm);
  const defaults = { groupSize: defaultGroupSize(algorithm) };
  return {
    ...resolveConfig({}, { defaults, ...(model && { model }) }),
    tokenBudget: defaultTokenBudget(policy, recompute),
    ...(known && algorithmDefaults(known)),
    algorithm,
  };
}

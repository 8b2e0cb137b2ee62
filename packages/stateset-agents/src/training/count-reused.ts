import type { Policy } from "../policy/policy.ts";

/** Tells the share of what is trained on from now on that sampling had computed already; undefined where there is none to tell. */
export function countReused(policy: Policy): () => number | undefined {
  const { trainedTokens: trainedBefore = 0, reusedTokens: reusedBefore = 0 } = policy.stats();
  return () => {
    const { trainedTokens = 0, reusedTokens = 0 } = policy.stats();
    const trained = trainedTokens - trainedBefore;
    return trained > 0 ? (reusedTokens - reusedBefore) / trained : undefined;
  };
}

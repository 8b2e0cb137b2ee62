/** What a reply took, as OpenAI counts it. */
import type { Sample } from "../../policy/policy.ts";
import type { Measure } from "../draw.ts";

export function usageOf({ promptTokens, cachedTokens }: Measure, samples: readonly Sample[]) {
  const completion_tokens = samples.reduce((sum, { tokens }) => sum + tokens.length, 0);
  return {
    prompt_tokens: promptTokens,
    completion_tokens,
    total_tokens: promptTokens + completion_tokens,
    prompt_tokens_details: { cached_tokens: cachedTokens, audio_tokens: 0 },
  };
}

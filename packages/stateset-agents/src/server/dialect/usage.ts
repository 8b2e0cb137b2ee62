/** What a reply took, as OpenAI counts it. */
import { z } from "zod";
import type { Sample } from "../../policy/policy.ts";
import type { Measure } from "../draw.ts";

export const usageSchema = z.object({
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  total_tokens: z.int(),
  prompt_tokens_details: z.object({ cached_tokens: z.int(), audio_tokens: z.int() }),
});

export function usageOf(
  { promptTokens, cachedTokens }: Measure,
  samples: readonly Sample[],
): z.output<typeof usageSchema> {
  const completion_tokens = samples.reduce((sum, { tokens }) => sum + tokens.length, 0);
  return {
    prompt_tokens: promptTokens,
    completion_tokens,
    total_tokens: promptTokens + completion_tokens,
    prompt_tokens_details: { cached_tokens: cachedTokens, audio_tokens: 0 },
  };
}

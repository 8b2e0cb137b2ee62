import { z } from "zod";
import { StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import { samplingSchema } from "./option-schemas.ts";
import type { SampleRequest } from "./policy.ts";
import { wellFormed } from "./tokenizer/well-formed.ts";

const besideSchema = z.strictObject({
  topLogprobs: z.int().min(0).max(20).optional(),
  samplerLogprobs: z.boolean().optional(),
  keepActivations: z.boolean().optional(),
  promptLogprobs: z.int().min(0).max(20).optional(),
  // Two names that cannot be written as bytes would be one to the engine.
  namespace: z
    .string()
    .refine((name) => name === wellFormed(name), "not well-formed Unicode")
    .optional(),
});

/** A prompt's log-probs may be all that is asked for. */
const scoringSchema = samplingSchema.extend({ maxTokens: z.int().min(0) });

/** Refuses what could only fail later, before anything is sampled. */
export function checkRequest(
  { vocabSize, contextLength }: { vocabSize: number; contextLength: number },
  request: SampleRequest,
  index: number,
): void {
  const { tokens, sampling, seed, topLogprobs, samplerLogprobs, promptLogprobs, namespace, keepActivations } = request;
  const schema = promptLogprobs === undefined ? samplingSchema : scoringSchema;
  parseOptions(schema, sampling, `sample() request ${index}: sampling`);
  const beside = { topLogprobs, samplerLogprobs, promptLogprobs, namespace, keepActivations };
  parseOptions(besideSchema, beside, `sample() request ${index}`);
  const invalid = (what: string) => new StatesetError("INVALID_OPTION", `sample() request ${index}: ${what}`);
  if (!Number.isSafeInteger(seed) || seed < 0) throw invalid(`the seed ${seed} is not a whole number from 0.`);
  if (tokens.length === 0) throw invalid("the prompt is empty; it needs at least one token.");
  const outside = (token: number) => token < 0 || token >= vocabSize;
  const biased = Object.keys(sampling.logitBias ?? {}).map(Number);
  const unknown = tokens.find(outside) ?? sampling.stopTokens.find(outside) ?? biased.find(outside);
  if (unknown !== undefined) throw invalid(`token ${unknown} is not in the vocabulary of ${vocabSize}.`);
  if ((sampling.minTokens ?? 0) > sampling.maxTokens) {
    throw invalid(`minTokens ${sampling.minTokens} is more than maxTokens ${sampling.maxTokens}.`);
  }
  if (tokens.length + Math.min(1, sampling.maxTokens) > contextLength) {
    throw new StatesetError(
      "CONTEXT_OVERFLOW",
      `sample() request ${index}: the prompt has ${tokens.length} tokens, and the context of ${contextLength} must also hold the reply.`,
      { hint: "Shorten the conversation, or use a model with a longer context." },
    );
  }
}

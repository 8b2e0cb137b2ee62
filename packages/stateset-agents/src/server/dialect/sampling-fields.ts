/** The fields of OpenAI's and vLLM's APIs that say how to sample, which several dialects share. */
import { randomInt } from "node:crypto";
import { z } from "zod";
import type { Sampling } from "../../policy/policy.ts";
import { priorities } from "../admission/admission.ts";
import { refused } from "./refused.ts";

export const samplingFields = {
  temperature: z.number().min(0).max(2).optional(),
  top_p: z.number().gt(0).max(1).optional(),
  top_k: z.int().min(-1).max(1_000_000).optional(),
  min_p: z.number().min(0).max(1).optional(),
  presence_penalty: z.number().min(-2).max(2).optional(),
  frequency_penalty: z.number().min(-2).max(2).optional(),
  repetition_penalty: z.number().gt(0).max(100).optional(),
  logit_bias: z.record(z.string().regex(/^\d{1,9}$/, "not a token id"), z.number().min(-100).max(100)).optional(),
  max_tokens: z.int().min(1).optional(),
  min_tokens: z.int().min(0).optional(),
  stop: z
    .union(
      [z.string().min(1).max(1024), z.array(z.string().min(1).max(1024)).max(16)],
      "one text or up to 16 were expected",
    )
    .optional(),
  stop_token_ids: z.array(z.int().min(0)).max(16).optional(),
  // Clients draw them from 64 bits, which a number here holds in part.
  seed: z
    .number()
    .min(-(2 ** 63))
    .max(2 ** 63)
    .refine(Number.isInteger, "a whole number was expected")
    .optional(),
  n: z.int().min(1).max(128).optional(),
  /** Whose turn it is where requests wait. */
  priority: z.enum(priorities).optional(),
  /** Milliseconds from the arrival of the request, after which nobody waits for the answer. */
  deadline: z.number().positive().max(86_400_000).optional(),
  /** Answer with the tokens themselves, as vLLM does. */
  return_token_ids: z.boolean().optional(),
  stream: z.boolean().optional(),
  stream_options: z
    .strictObject({ include_usage: z.boolean().nullish(), include_obfuscation: z.boolean().nullish() })
    .optional(),
};

const fields = z.object(samplingFields);
type Fields = z.output<typeof fields>;

/** What the request says, over what the agent would do; but for the length of a reply, which each dialect names in its own way. */
export function samplingOf(fields: Fields, own: Readonly<Sampling>, vocabSize: number): Sampling {
  const bias = fields.logit_bias && Object.entries(fields.logit_bias);
  const outside =
    bias?.find(([token]) => Number(token) >= vocabSize)?.[0] ?? fields.stop_token_ids?.find((id) => id >= vocabSize);
  if (outside !== undefined) {
    const param = bias?.some(([token]) => token === outside) ? "logit_bias" : "stop_token_ids";
    throw refused(param, `holds token ${outside}, which is not in the vocabulary of ${vocabSize}.`);
  }
  const changes: Partial<Sampling> = {
    temperature: fields.temperature,
    topP: fields.top_p,
    topK: fields.top_k === -1 ? 0 : fields.top_k,
    minP: fields.min_p,
    presencePenalty: fields.presence_penalty,
    frequencyPenalty: fields.frequency_penalty,
    repetitionPenalty: fields.repetition_penalty,
    logitBias: bias && Object.fromEntries(bias),
    minTokens: fields.min_tokens,
    stop: fields.stop === undefined ? undefined : [fields.stop].flat(),
    stopTokens: fields.stop_token_ids,
  } as Partial<Sampling>;
  const given = Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined));
  return { ...own, ...given };
}

/** A reply can have no fewer tokens than it must have. */
export function requireLengths({ min_tokens: least = 0 }: Pick<Fields, "min_tokens">, most: number): void {
  if (least > most) throw refused("min_tokens", `is ${least}, and a reply may have ${most} at most.`);
}

/** 32 bits, whatever number was given; drawn where none was. */
export function seedOfField(seed: number | undefined): number {
  return seed === undefined ? randomInt(2 ** 32) : ((seed % 2 ** 32) + 2 ** 32) % 2 ** 32;
}

/** Texts and tokens that a client gives as they are: /v1/completions, /v1/embeddings, /tokenize. */
import { setImmediate as nextTurn } from "node:timers/promises";
import { z } from "zod";
import type { Policy } from "../../policy/policy.ts";
import { HttpError } from "../http-error.ts";
import { refused } from "./refused.ts";
import { requireShort } from "./text-limit.ts";

const tokenIds = z.array(z.int().min(0)).min(1);

/** A text, its tokens, or several of either. */
export function textsSchema(most: number) {
  const kinds = [z.string(), z.array(z.string()).min(1), tokenIds, z.array(tokenIds).min(1)] as const;
  return z
    .union(kinds, "a text, its tokens, or a list of either was expected")
    .refine((given) => !hasSeveral(given) || given.length <= most, `${most} are the most`);
}

export const tokensSchema = z.array(z.int().min(0));

function hasSeveral(given: string | string[] | number[] | number[][]): given is string[] | number[][] {
  return Array.isArray(given) && typeof given[0] !== "number";
}

export type GivenTexts = z.output<ReturnType<typeof textsSchema>>;

export interface GivenText {
  /** As it was written; of tokens, what they spell without special ones. */
  text: string;
  tokens: Int32Array;
}

export interface ReadTextsOptions {
  policy: Policy;
  /** Begin texts as the model's texts begin. */
  bos: boolean;
  /** The field of the request that they stand in. */
  param: string;
}

/** What somebody wrote is plain text, whatever it spells; tokens are what they are. */
export async function readTexts(given: GivenTexts, options: ReadTextsOptions): Promise<GivenText[]> {
  const { policy, param } = options;
  const several = hasSeveral(given);
  const texts = (several ? given : [given]) as (string | number[])[];
  const read: GivenText[] = [];
  for (const [i, one] of texts.entries()) {
    const own = { ...options, param: several ? `${param}.${i}` : param };
    // Others have their turn between two texts, of which there may be thousands.
    if (i > 0) await nextTurn();
    if (typeof one === "string") read.push({ text: one, tokens: encodeText(one, own) });
    else {
      const tokens = requireTokens(one, policy, own.param);
      read.push({ text: policy.tokenizer.decode(tokens), tokens });
    }
  }
  return read;
}

export function encodeText(text: string, { policy, bos, param }: ReadTextsOptions): Int32Array {
  requireShort(text, policy, param);
  const { tokenizer } = policy;
  const tokens = tokenizer.encode(text);
  return bos && tokenizer.bosToken !== undefined ? Int32Array.from([tokenizer.bosToken, ...tokens]) : tokens;
}

/** So many are read in no time, however short the context is. */
const mostTokens = 1 << 16;

/** The vocabulary is the model's, which may be larger than that of its tokenizer. */
export function requireTokens(ids: readonly number[], { model }: Policy, param: string): Int32Array {
  const { vocabSize, contextLength } = model;
  if (ids.length > mostTokens) requireFits(ids.length, contextLength, { room: 0, param });
  const outside = ids.find((id) => id >= vocabSize);
  if (outside === undefined) return Int32Array.from(ids);
  throw refused(param, `holds token ${outside}, which is not in the vocabulary of ${vocabSize}.`);
}

/** `room` is what must stay free behind it. */
export function requireFits(tokens: number, contextLength: number, { room, param }: { room: number; param: string }) {
  if (tokens + room <= contextLength) return;
  throw new HttpError(400, `The context of this model is ${contextLength} tokens, and the text takes ${tokens}.`, {
    code: "context_length_exceeded",
    param,
  });
}

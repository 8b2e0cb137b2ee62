/** Texts and tokens that a client gives as they are: /v1/completions, /v1/embeddings, /tokenize. */
import { z } from "zod";
import type { ChatTokenizer } from "../../policy/policy.ts";
import { HttpError } from "../http-error.ts";

const tokenIds = z.array(z.int().min(0)).min(1);

/** A text, its tokens, or several of either. */
export function textsSchema(most: number) {
  return z.union([z.string(), z.array(z.string()).min(1).max(most), tokenIds, z.array(tokenIds).min(1).max(most)]);
}

export const tokensSchema = z.array(z.int().min(0));

export type GivenTexts = z.output<ReturnType<typeof textsSchema>>;

export interface GivenText {
  /** As it was written; of tokens, what they spell without special ones. */
  text: string;
  tokens: Int32Array;
}

export interface ReadTextsOptions {
  tokenizer: ChatTokenizer;
  /** Of tokens there are: those of the model, which may have more than its tokenizer. */
  vocabSize: number;
  /** Begin texts as the model's texts begin. */
  bos: boolean;
  /** The field of the request that they stand in. */
  param: string;
}

/** What somebody wrote is plain text, whatever it spells; tokens are what they are. */
export function readTexts(given: GivenTexts, options: ReadTextsOptions): GivenText[] {
  const { tokenizer, vocabSize, param } = options;
  const several = Array.isArray(given) && typeof given[0] !== "number";
  const texts = (several ? given : [given]) as (string | number[])[];
  return texts.map((one, i) => {
    if (typeof one === "string") return { text: one, tokens: encodeText(one, options) };
    const tokens = requireTokens(one, vocabSize, several ? `${param}.${i}` : param);
    return { text: tokenizer.decode(tokens), tokens };
  });
}

export function encodeText(text: string, { tokenizer, bos }: Pick<ReadTextsOptions, "tokenizer" | "bos">): Int32Array {
  const tokens = tokenizer.encode(text);
  return bos && tokenizer.bosToken !== undefined ? Int32Array.from([tokenizer.bosToken, ...tokens]) : tokens;
}

export function requireTokens(ids: readonly number[], vocabSize: number, param: string): Int32Array {
  const outside = ids.find((id) => id >= vocabSize);
  if (outside === undefined) return Int32Array.from(ids);
  throw new HttpError(400, `Token ${outside} is not in the vocabulary of ${vocabSize}.`, {
    code: "invalid_value",
    param,
  });
}

/** `room` is what must stay free behind it. */
export function requireFits(tokens: number, contextLength: number, { room, param }: { room: number; param: string }) {
  if (tokens + room <= contextLength) return;
  throw new HttpError(400, `The context of this model is ${contextLength} tokens, and the text takes ${tokens}.`, {
    code: "context_length_exceeded",
    param,
  });
}

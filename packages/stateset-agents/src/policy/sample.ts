/** What is asked of a sampler, and what it gives. */
import type { ByteAutomaton, Constrained } from "./constraint.ts";
import type { Version } from "./policy.ts";

/** How to choose tokens. Log-probs are always those of the temperature-scaled, untruncated distribution. */
export interface Sampling {
  /** 0 is greedy. */
  temperature: number;
  topP: number;
  /** 0: off. */
  topK: number;
  minP: number;
  /** 1: off. */
  repetitionPenalty: number;
  /** Taken off the logit of every token that the reply holds, from -2 to 2. Default 0. */
  presencePenalty?: number;
  /** Taken off the logit of a token for each time the reply holds it, from -2 to 2. Default 0. */
  frequencyPenalty?: number;
  /** Added to the logits of these tokens, from -100 to 100. */
  logitBias?: Readonly<Record<number, number>>;
  maxTokens: number;
  /** No end or stop token is chosen before this many tokens (a stop text still ends the reply). Default 0. */
  minTokens?: number;
  /** Texts that end a reply; not part of its text. */
  stop: readonly string[];
  /** Tokens that end a reply, beside the model's own end tokens, and like these are its last token. */
  stopTokens: readonly number[];
}

export const defaultSampling: Sampling = {
  temperature: 1,
  topP: 1,
  topK: 0,
  minP: 0,
  repetitionPenalty: 1,
  maxTokens: 256,
  stop: [],
  stopTokens: [],
};

/** The same with replies of at most so many tokens; the shortest of them is no longer than that. */
export function shortened(sampling: Readonly<Sampling>, maxTokens: number): Sampling {
  const most = Math.min(sampling.maxTokens, maxTokens);
  const { minTokens } = sampling;
  return { ...sampling, maxTokens: most, ...(minTokens !== undefined && { minTokens: Math.min(minTokens, most) }) };
}

/** Whether more than the temperature decides what is drawn: then samples are not from the distribution their log-probs are of. */
export function isShaped(sampling: Sampling): boolean {
  const { topP, topK, minP, repetitionPenalty, presencePenalty = 0, frequencyPenalty = 0 } = sampling;
  return (
    topP < 1 ||
    topK > 0 ||
    minP > 0 ||
    repetitionPenalty !== 1 ||
    presencePenalty !== 0 ||
    frequencyPenalty !== 0 ||
    (sampling.minTokens ?? 0) > 0 ||
    Object.values(sampling.logitBias ?? {}).some((added) => added !== 0)
  );
}

export interface SampleRequest {
  /** The whole prompt. What several requests share at their start is computed once. */
  tokens: Int32Array;
  sampling: Sampling;
  /** The request's result depends on this, the weights, the prompt and the sampling alone; not on its neighbours. */
  seed: number;
  /** Report this many of the likeliest tokens for each position, at most 20. Default 0. */
  topLogprobs?: number;
  /**
   * Report log-probs of the prompt's tokens, and so many of the likeliest ones in their places, at most 20; where
   * `capabilities.promptLogprobs`. All of the prompt is computed for it, and `maxTokens` may be 0. Left out: none.
   */
  promptLogprobs?: number | undefined;
  /** Report log-probs under what was really drawn from, too. Default false. */
  samplerLogprobs?: boolean;
  /** Draw only tokens that this allows; where `capabilities.constrain`. Log-probs stay those of the whole distribution. */
  constraint?: ByteAutomaton | undefined;
  /**
   * Who shares with this request what was computed of a prompt: requests of other namespaces neither use it nor give it, so that no
   * one can tell from the time of a first token what others asked. Results do not depend on it. Default "", the common one.
   */
  namespace?: string | undefined;
  /**
   * What is sampled will be trained on: an engine that can keeps what it computes, where it has room, for the first pass over these tokens.
   * Results do not depend on it. Default false.
   */
  keepActivations?: boolean | undefined;
}

export interface TokenLogprob {
  token: number;
  logprob: number;
}

export interface Sample {
  /** What was sampled, the end-of-turn token included when the model chose it. */
  tokens: Int32Array;
  logprobs: Float32Array;
  /** The text of `tokens` without special tokens and without a stop string. */
  text: string;
  finishReason: "stop" | "length" | "aborted";
  /** The weights that drew every one of the tokens. */
  version: Version;
  /** Tokens of the prompt that did not have to be computed. */
  cachedTokens?: number;
  /** From the call to the first step of the engine that worked on it. */
  queuedMs?: number;
  /** Of `tokens`, with penalties, bias, smallest length and truncation; equal to `logprobs` where nothing shaped the draw. */
  samplerLogprobs?: Float32Array;
  /** The likeliest tokens of each position, best first, with log-probs of the distribution that `logprobs` are of. */
  topLogprobs?: readonly (readonly TokenLogprob[])[];
  /** Of the prompt's tokens, as forward() gives them at the request's temperature: 0 for the first, which nothing comes before. */
  promptLogprobs?: Float32Array;
  /** The likeliest tokens in the place of each of the prompt's, best first; none for the first. */
  promptTopLogprobs?: readonly (readonly TokenLogprob[])[];
  /** What the request's constraint did. */
  constrained?: Constrained;
  /** Set when a stub made this up. */
  stub?: true;
}

export interface SampleToken {
  /** Index into the requests of this call. */
  request: number;
  token: number;
  logprob: number;
  /** The text that became certain with this token (may be empty inside a multi-byte character). */
  text: string;
  samplerLogprob?: number;
  topLogprobs?: readonly TokenLogprob[];
}

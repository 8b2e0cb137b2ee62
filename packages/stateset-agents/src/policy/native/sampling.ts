import type { Model, SampledExtras, SampledReply } from "@stateset-agents/engine";
import { z } from "zod";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { samplingSchema } from "../option-schemas.ts";
import type { Sample, SampleRequest, SampleToken, TokenLogprob, Version } from "../policy.ts";
import { createReplyText, type LoadedTokenizer } from "../tokenizer/index.ts";
import { wellFormed } from "../tokenizer/well-formed.ts";
import type { Constraints } from "./constraints.ts";

const besideSchema = z.strictObject({
  topLogprobs: z.int().min(0).max(20).optional(),
  samplerLogprobs: z.boolean().optional(),
  promptLogprobs: z.int().min(0).max(20).optional(),
  // Two names that cannot be written as bytes would be one to the engine.
  namespace: z
    .string()
    .refine((name) => name === wellFormed(name), "not well-formed Unicode")
    .optional(),
});

/** A prompt's log-probs may be all that is asked for. */
const scoringSchema = samplingSchema.extend({ maxTokens: z.int().min(0) });

/** What sampling needs of the policy. */
export interface SamplerParts {
  model: Model;
  tokenizer: LoadedTokenizer;
  vocabSize: number;
  contextLength: number;
  constraints: Constraints;
  /** The name of the weights with this count of changes. */
  versionAt(count: number): Version | Promise<Version>;
}

/** The one switch for all requests of a call. */
export interface Abort {
  aborted: boolean;
  /** Ends each request that is being sampled. */
  running: Set<() => void>;
}

/** Refuses what could only fail later, before anything is sampled. */
export function checkRequest({ vocabSize, contextLength }: SamplerParts, request: SampleRequest, index: number): void {
  const { tokens, sampling, seed, topLogprobs, samplerLogprobs, promptLogprobs, namespace } = request;
  const schema = promptLogprobs === undefined ? samplingSchema : scoringSchema;
  parseOptions(schema, sampling, `sample() request ${index}: sampling`);
  const beside = { topLogprobs, samplerLogprobs, promptLogprobs, namespace };
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

/**
 * Samples one reply. Stop texts are watched for here, on the text of the tokens as they come; the request is then cancelled,
 * and whatever the engine drew in the meantime is cut off, so the kept tokens end with the one that completed the stop text.
 */
export async function sampleOne(
  { model, tokenizer, contextLength, constraints, versionAt }: SamplerParts,
  { tokens, sampling, seed, topLogprobs, samplerLogprobs, promptLogprobs, constraint, namespace }: SampleRequest,
  index: number,
  abort: Abort,
  onToken: ((token: SampleToken) => void) | undefined,
): Promise<Sample> {
  if (abort.aborted) {
    const version = await versionAt(model.version);
    return { tokens: new Int32Array(), logprobs: new Float32Array(), text: "", finishReason: "aborted", version };
  }
  const { stop, stopTokens, logitBias, ...numbers } = sampling;
  const limit = Math.min(sampling.maxTokens, contextLength - tokens.length);
  const ends = new Set([...tokenizer.endTokens, ...stopTokens]);
  const reply = createReplyText(tokenizer.createTextStream(), stop);
  let read = 0;
  let failure: unknown;
  const take = (token: number, logprob: number, extras: SampledExtras | undefined) => {
    if (reply.stopped || failure !== undefined || abort.aborted) return;
    read++;
    const piece = reply.push(token);
    const last = reply.stopped || ends.has(token) || read === limit;
    const text = last ? piece + reply.finish() : piece;
    if (reply.stopped) running.cancel();
    const { samplerLogprobs: own, topLogprobs: top } = extras ? extrasOf(extras, 1) : {};
    try {
      onToken?.({
        request: index,
        token,
        logprob,
        text,
        ...(own && { samplerLogprob: own[0]! }),
        ...(top && { topLogprobs: top[0]! }),
      });
    } catch (thrown) {
      // The caller's mistake belongs into the caller's promise, not into the engine's callback.
      failure = thrown ?? new Error("onToken failed");
      running.cancel();
    }
  };
  const streaming = onToken !== undefined || stop.length > 0;
  const request = {
    ...numbers,
    tokens,
    namespace,
    logitBias: new Map(Object.entries(logitBias ?? {}).map(([token, added]) => [Number(token), added])),
    stopTokens: Int32Array.from(ends),
    seed,
    topLogprobs,
    samplerLogprobs,
    promptLogprobs,
    constraint: constraint && constraints.idOf(constraint),
  };
  const running = model.sample(request, streaming ? take : undefined);
  abort.running.add(running.cancel);
  try {
    const drawn = await running.reply;
    if (failure !== undefined) throw failure;
    if (!streaming) for (const token of drawn.tokens) reply.push(token);
    reply.finish();
    const kept = streaming ? read : drawn.tokens.length;
    return {
      tokens: drawn.tokens.slice(0, kept),
      logprobs: drawn.logprobs.slice(0, kept),
      text: reply.text,
      finishReason: reply.stopped ? "stop" : drawn.finish,
      version: await versionAt(drawn.version),
      cachedTokens: drawn.cached,
      queuedMs: drawn.queuedMs,
      ...extrasOf(drawn, drawn.tokens.length, kept),
      ...aboutPrompt(drawn, promptLogprobs ?? 0),
    };
  } finally {
    abort.running.delete(running.cancel);
  }
}

/** What was asked for beside tokens and log-probs, of the first `kept` of `count` tokens. */
function extrasOf(
  { samplerLogprobs, topTokens, topLogprobs, forced, removed }: SampledExtras,
  count: number,
  kept = count,
): Pick<Sample, "samplerLogprobs" | "topLogprobs" | "constrained"> {
  return {
    ...(samplerLogprobs && { samplerLogprobs: samplerLogprobs.slice(0, kept) }),
    ...(forced && {
      constrained: { forced: Uint8Array.from(forced.slice(0, kept)), removed: removed!.slice(0, kept) },
    }),
    ...(topTokens && { topLogprobs: likeliest(topTokens, topLogprobs!, topTokens.length / count, kept) }),
  };
}

/** Of a request that was ended early: what was computed of its prompt until then. */
function aboutPrompt(
  { promptLogprobs, promptTopTokens, promptTopLogprobs }: SampledReply,
  asked: number,
): Pick<Sample, "promptLogprobs" | "promptTopLogprobs"> {
  if (!promptLogprobs) return {};
  if (asked === 0) return { promptLogprobs };
  const rows = promptLogprobs.length - 1;
  const best = likeliest(promptTopTokens!, promptTopLogprobs!, promptTopTokens!.length / rows, rows);
  return { promptLogprobs, promptTopLogprobs: [[], ...best] };
}

/** The first `count` rows of `width` tokens with their log-probs. */
function likeliest(tokens: Int32Array, logprobs: Float32Array, width: number, count: number): TokenLogprob[][] {
  const entry = (at: number): TokenLogprob => ({ token: tokens[at]!, logprob: logprobs[at]! });
  return Array.from({ length: count }, (_, row) =>
    Array.from({ length: width }, (_, rank) => entry(row * width + rank)),
  );
}

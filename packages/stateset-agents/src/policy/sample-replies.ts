import { onAbort } from "../abort.ts";
import { allOrStop } from "./all-or-stop.ts";
import { checkRequest } from "./check-request.ts";
import type { Sample, SampleOptions, SampleRequest, SampleToken, Sampling, TokenLogprob, Version } from "./policy.ts";
import { createReplyText, type LoadedTokenizer } from "./tokenizer/index.ts";

/** What may come with tokens beside their log-probs; of as many tokens. */
export interface DrawnExtras {
  samplerLogprobs?: Float32Array;
  /** The likeliest tokens, best first, and their log-probs; as many for each token. */
  topTokens?: Int32Array;
  topLogprobs?: Float32Array;
  /** Of a request with a constraint: 1 where it left one token, and the probability of all that could not be drawn. */
  forced?: Int32Array;
  removed?: Float32Array;
}

/** What an engine drew for one request. */
export interface Drawn extends DrawnExtras {
  tokens: Int32Array;
  logprobs: Float32Array;
  finish: "stop" | "length" | "aborted";
  /** Prompt tokens that did not have to be computed. */
  cached: number;
  queuedMs: number;
  /** Which weights drew them, by the engine's count of changes. */
  version: number;
  promptLogprobs?: Float32Array;
  promptTopTokens?: Int32Array;
  promptTopLogprobs?: Float32Array;
}

/** A request as an engine gets it: what ends it are tokens alone. */
export interface DrawRequest
  extends Omit<SampleRequest, "sampling">,
    Omit<Sampling, "stop" | "stopTokens" | "logitBias"> {
  stopTokens: Int32Array;
  logitBias: ReadonlyMap<number, number>;
}

type TakeToken = (token: number, logprob: number, extras: DrawnExtras | undefined) => void;

/** An engine that draws tokens: what becomes a reply of them is the same for each. */
export interface Drawer {
  tokenizer: LoadedTokenizer;
  vocabSize: number;
  contextLength: number;
  /** Tells tokens as they come where `take` is given. */
  draw(request: DrawRequest, take: TakeToken | undefined): { reply: Promise<Drawn>; cancel(): void };
  /** The name of the weights with this count of changes, or of those that a request made now would get. */
  versionAt(count?: number): Version | Promise<Version>;
}

/** The one switch for all requests of a call. */
interface Abort {
  aborted: boolean;
  /** Ends each request that is being sampled. */
  running: Set<() => void>;
}

/** Policy.sample() for an engine that draws tokens. */
export async function sampleReplies(
  drawer: Drawer,
  requests: readonly SampleRequest[],
  { signal, onToken }: SampleOptions = {},
): Promise<Sample[]> {
  requests.forEach((request, index) => {
    checkRequest(drawer, request, index);
  });
  const abort: Abort = { aborted: signal?.aborted ?? false, running: new Set() };
  const stop = () => {
    abort.aborted = true;
    for (const cancel of abort.running) cancel();
  };
  const letGo = onAbort(signal, stop);
  const replies = requests.map((request, index) => sampleOne(drawer, request, index, abort, onToken));
  try {
    return await allOrStop(replies, stop);
  } finally {
    letGo();
  }
}

/**
 * Samples one reply. Stop texts are watched for here, on the text of the tokens as they come; the request is then cancelled,
 * and whatever the engine drew in the meantime is cut off, so the kept tokens end with the one that completed the stop text.
 */
async function sampleOne(
  { draw, tokenizer, contextLength, versionAt }: Drawer,
  { sampling, ...asked }: SampleRequest,
  index: number,
  abort: Abort,
  onToken: ((token: SampleToken) => void) | undefined,
): Promise<Sample> {
  if (abort.aborted) {
    const version = await versionAt();
    return { tokens: new Int32Array(), logprobs: new Float32Array(), text: "", finishReason: "aborted", version };
  }
  const { stop, stopTokens, logitBias, ...numbers } = sampling;
  const limit = Math.min(sampling.maxTokens, contextLength - asked.tokens.length);
  const ends = new Set([...tokenizer.endTokens, ...stopTokens]);
  const reply = createReplyText(tokenizer.createTextStream(), stop);
  let read = 0;
  let failure: unknown;
  const take = (token: number, logprob: number, extras: DrawnExtras | undefined) => {
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
    ...asked,
    logitBias: new Map(Object.entries(logitBias ?? {}).map(([token, added]) => [Number(token), added])),
    stopTokens: Int32Array.from(ends),
  };
  const running = draw(request, streaming ? take : undefined);
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
      ...aboutPrompt(drawn, asked.promptLogprobs ?? 0),
    };
  } finally {
    abort.running.delete(running.cancel);
  }
}

/** What was asked for beside tokens and log-probs, of the first `kept` of `count` tokens. */
function extrasOf(
  { samplerLogprobs, topTokens, topLogprobs, forced, removed }: DrawnExtras,
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
  { promptLogprobs, promptTopTokens, promptTopLogprobs }: Drawn,
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

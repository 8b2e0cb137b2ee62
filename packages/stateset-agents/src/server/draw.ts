/** Sampling for a request: its turn in the queue, its deadline, its client that may leave. Every dialect samples through this. */
import { linkSignals } from "../abort.ts";
import { hasCode } from "../error.ts";
import type { Sample, SampleRequest, SampleToken } from "../policy/policy.ts";
import { seedOf } from "../random.ts";
import type { Priority } from "./admission/admission.ts";
import type { Exchange } from "./exchange.ts";
import { HttpError } from "./http-error.ts";
import type { ServedModel } from "./served-model.ts";

export interface DrawRequest
  extends Pick<SampleRequest, "tokens" | "sampling" | "constraint" | "topLogprobs" | "samplerLogprobs"> {
  model: ServedModel;
  /** Of the first reply; the others' follow from it. */
  seed: number;
  /** Replies. They share their prompt. */
  n: number;
  priority: Priority | undefined;
  /** Milliseconds from the request's arrival, in place of the server's own. */
  deadlineMs: number | undefined;
  onToken?: (token: SampleToken) => void;
  /** Told what there was of replies that were broken off. */
  onBroken?: (samples: readonly Sample[]) => void;
}

/** What a request cost and when. */
export interface Measure {
  promptTokens: number;
  cachedTokens: number;
  sampledTokens: number;
  queuedMs?: number;
  /** From the arrival of the request. */
  firstTokenMs?: number;
  interTokenMs: number[];
  version?: string;
}

export function createMeasure(): Measure {
  return { promptTokens: 0, cachedTokens: 0, sampledTokens: 0, interTokenMs: [] };
}

/** Gaps between tokens that are kept of one request; more say no more. */
const mostGaps = 512;

/** The first reply's is the request's own, so that anybody can draw it again. */
export function seedOfChoice(seed: number, choice: number): number {
  return choice === 0 ? seed : seedOf(seed, "choice", choice);
}

/** Waits for the request's turn. What it resolves to samples, and must be called. */
export async function takeTurn(request: DrawRequest, exchange: Exchange): Promise<() => Promise<Sample[]>> {
  const { model, n, tokens, sampling, deadlineMs = exchange.deadlineMs } = request;
  const { measure, caller, signal, arrived } = exchange;
  measure.promptTokens = tokens.length;
  // Not while the engine is away.
  const { policy } = model;
  const asked = tokens.length + sampling.maxTokens * n;
  exchange.reserve(asked);
  const deadline = deadlineMs === undefined ? undefined : arrived + deadlineMs;
  const ticket = { key: caller.keyId, priority: request.priority ?? "interactive", tokens: asked, slots: n };
  const admitted = await model.admission.enter({ ...ticket, deadline, signal }).catch((error: unknown) => {
    throw hasCode(error, "ABORTED") ? brokenOff(signal) : error;
  });
  measure.queuedMs = admitted.queuedMs;
  const last: number[] = [];
  const onToken = (token: SampleToken) => {
    const now = performance.now();
    measure.sampledTokens++;
    measure.firstTokenMs ??= now - arrived;
    const before = last[token.request];
    if (before !== undefined && measure.interTokenMs.length < mostGaps) measure.interTokenMs.push(now - before);
    last[token.request] = now;
    request.onToken?.(token);
  };
  return async () => {
    const { constraint, topLogprobs, samplerLogprobs = false } = request;
    const link = linkSignals(signal);
    const late = deadline === undefined ? undefined : setTimeout(link.abort, Math.max(0, deadline - performance.now()));
    try {
      const requests = Array.from({ length: n }, (_, choice) => ({
        ...{ tokens, sampling, constraint, samplerLogprobs, namespace: caller.project },
        seed: seedOfChoice(request.seed, choice),
        ...(topLogprobs !== undefined && { topLogprobs }),
      }));
      const samples = await policy.sample(requests, { signal: link.signal, onToken });
      measure.cachedTokens = Math.max(...samples.map(({ cachedTokens = 0 }) => cachedTokens));
      measure.version = samples[0]!.version;
      if (samples.some(({ finishReason }) => finishReason === "aborted")) {
        request.onBroken?.(samples);
        throw brokenOff(signal);
      }
      return samples;
    } catch (error) {
      model.noteFailure(error);
      throw hasCode(error, "ABORTED") ? brokenOff(signal) : error;
    } finally {
      clearTimeout(late);
      link.unlink();
      admitted.leave();
    }
  };
}

/** By whose doing it ended: the server's that ends, the client's, or its deadline's. */
function brokenOff(client: AbortSignal): HttpError {
  if (client.reason instanceof HttpError) return client.reason;
  if (client.aborted) return new HttpError(499, "The client closed the request.", { code: "aborted" });
  return new HttpError(408, "The deadline passed while the reply was sampled.", {
    code: "deadline_exceeded",
    headers: { "x-should-retry": "false" },
  });
}

/** Sampling for a request, at its turn. Every dialect samples through this. */
import { StatesetError } from "../error.ts";
import type { Sample, SampleRequest, SampleToken, Version } from "../policy/policy.ts";
import { seedOf } from "../random.ts";
import type { Priority } from "./admission/admission.ts";
import type { Exchange } from "./exchange.ts";
import type { ServedModel } from "./served-model.ts";
import { waitForTurn } from "./turn.ts";

export interface DrawRequest {
  model: ServedModel;
  /** One for each reply. Replies that share a prompt have the same array of tokens, which is counted once. */
  requests: readonly SampleRequest[];
  priority: Priority | undefined;
  /** Milliseconds from the request's arrival, in place of the server's own. */
  deadlineMs: number | undefined;
  /** Told which weights will answer, before the first token. */
  onBegin?: (version: Version) => void;
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
  finishReasons?: Sample["finishReason"][];
  version?: string;
}

export function createMeasure(): Measure {
  return { promptTokens: 0, cachedTokens: 0, sampledTokens: 0, interTokenMs: [] };
}

/** Gaps between tokens that are kept of one request; more say no more. */
const mostGaps = 512;

/** So many replies to one prompt: the first one's seed is the request's own, so that anybody can draw it again; the others' follow from it. */
export function repeated(n: number, request: SampleRequest): SampleRequest[] {
  const { seed } = request;
  return Array.from({ length: n }, (_, choice) =>
    choice === 0 ? request : { ...request, seed: seedOf(seed, "choice", choice) },
  );
}

/** Waits for the request's turn. What it resolves to samples, and must be called. */
export async function takeTurn(request: DrawRequest, exchange: Exchange): Promise<() => Promise<Sample[]>> {
  const { model, requests, deadlineMs } = request;
  const { measure, caller, arrived } = exchange;
  const prompts = [...new Set(requests.map(({ tokens }) => tokens))];
  const promptTokens = sum(prompts.map(({ length }) => length));
  const turn = await waitForTurn(
    {
      ...{ model, deadlineMs, priority: request.priority ?? "interactive", slots: requests.length },
      tokens: promptTokens + sum(requests.map(({ sampling }) => sampling.maxTokens)),
    },
    exchange,
  );
  // Who never had a turn took nothing.
  measure.promptTokens = promptTokens;
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
  return () =>
    turn(async (policy, signal) => {
      const own = requests.map((one) => ({ ...one, namespace: caller.project }));
      measure.version = policy.version;
      request.onBegin?.(policy.version);
      const samples = await policy.sample(own, { signal, onToken });
      const cached = (tokens: Int32Array) =>
        samples.map(({ cachedTokens = 0 }, i) => (requests[i]!.tokens === tokens ? cachedTokens : 0));
      measure.cachedTokens = sum(prompts.map((tokens) => Math.max(...cached(tokens))));
      measure.version = samples[0]!.version;
      measure.finishReasons = samples.map(({ finishReason }) => finishReason);
      if (samples.some(({ finishReason }) => finishReason === "aborted")) {
        request.onBroken?.(samples);
        throw new StatesetError("ABORTED", "Stopped while sampling.");
      }
      return samples;
    });
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0);
}

import { createHash } from "node:crypto";
import { z } from "zod";
import { onAbort, withDeadline } from "../abort.ts";
import type { Message } from "../conversation/message.ts";
import { messageOf, StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import { createRandom, seedOf } from "../random.ts";
import { createAnswerCache } from "./answer-cache.ts";
import { createBreaker, trialMs } from "./breaker.ts";
import { type JudgeModel, JudgeModelError, type JudgeReply } from "./judge-model.ts";
import { createLimiter } from "./limiter.ts";

export interface JudgeOptions {
  model: JudgeModel;
  /** Temperature 0, a fixed seed and a cache: the same question always gets the same answer. Default true. */
  deterministic?: boolean;
  /** Only with `deterministic: false`. Default 0. */
  temperature?: number;
  /** Default 0. Also seeds the jitter between retries. */
  seed?: number;
  /** Longest answer, in tokens. Default 512. */
  maxTokens?: number;
  /** Default 60,000, per attempt. */
  timeoutMs?: number;
  /** Calls in flight at once. Default 8. */
  concurrency?: number;
  /** Attempts in all (default 4), waiting baseMs·2^n with jitter, at most maxMs. Defaults 500 and 30,000. */
  retry?: { attempts?: number; baseMs?: number; maxMs?: number };
  /** Calls that fail in a row before the endpoint is left alone, and for how long. Defaults 5 and 30,000. */
  breaker?: { failures?: number; resetMs?: number };
  /** What may be spent. A call that could pass a limit is not made. Cost needs `prices`. */
  budget?: { calls?: number; tokens?: number; cost?: number };
  /** Per million tokens, in the currency of `budget.cost`. */
  prices?: { prompt: number; completion: number };
  /** A file that keeps answers between runs, or false for no cache at all. Default: in memory. */
  cache?: { file: string } | false;
}

const positiveInt = z.int().positive();
export const judgeSchema = z.strictObject({
  model: z.custom<JudgeModel>((v) => typeof (v as JudgeModel | null)?.complete === "function", "expected a JudgeModel"),
  deterministic: z.boolean().default(true),
  temperature: z.number().min(0).default(0),
  seed: z.int().default(0),
  maxTokens: positiveInt.default(512),
  timeoutMs: positiveInt.default(60_000),
  concurrency: positiveInt.default(8),
  retry: z
    .strictObject({
      attempts: positiveInt.default(4),
      baseMs: z.number().min(0).default(500),
      maxMs: z.number().min(0).default(30_000),
    })
    .prefault({}),
  breaker: z
    .strictObject({ failures: positiveInt.default(5), resetMs: z.number().min(0).default(30_000) })
    .prefault({}),
  budget: z
    .strictObject({
      calls: positiveInt.optional(),
      tokens: positiveInt.optional(),
      cost: z.number().positive().optional(),
    })
    .prefault({}),
  prices: z.strictObject({ prompt: z.number().min(0), completion: z.number().min(0) }).optional(),
  cache: z.union([z.strictObject({ file: z.string().min(1) }), z.literal(false)]).optional(),
});

export type FailureKind =
  | "rate-limit"
  | "server"
  | "network"
  | "timeout"
  | "rejected"
  | "malformed"
  | "circuit-open"
  | "budget";

export interface JudgeStats {
  /** Questions asked by rewards, and how many got no answer in the end. */
  questions: number;
  failed: number;
  /** Calls to the model, retries included. */
  calls: number;
  retries: number;
  cacheHits: number;
  promptTokens: number;
  completionTokens: number;
  /** Calls whose usage the endpoint did not report and that were estimated at four characters a token. */
  estimatedUsage: number;
  cost: number;
  circuitOpened: number;
  /** Failed attempts by kind; an attempt that failed may have been saved by a retry. */
  failures: Record<FailureKind, number>;
}

export interface Question<T> {
  messages: readonly Message[];
  /** Reads the answer; throws when it cannot be read, which costs an attempt. */
  read: (text: string) => T;
  /** In place of the judge's own. */
  seed?: number;
  signal?: AbortSignal | undefined;
  /** Waits for other questions through it: a reward's clock stands still meanwhile. */
  untimed?: (<T>(wait: () => Promise<T>) => Promise<T>) | undefined;
}

/** A model behind a cache, a budget, retries and a circuit breaker. Every failure is counted; none becomes a score. */
export interface Judge {
  readonly id: string;
  /** The answer, or a StatesetError JUDGE_FAILED that says why there is none. */
  ask<T>(question: Question<T>): Promise<T>;
  stats(): JudgeStats;
}

export interface Clock {
  now(): number;
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      const stop = () => {
        clearTimeout(timer);
        reject(signal!.reason);
      };
      const timer = setTimeout(() => {
        letGo();
        resolve();
      }, ms);
      const letGo = onAbort(signal, stop);
    }),
};

/**
 * @example
 * const judge = createJudge({ model: openaiJudgeModel({ model: "gpt-4o-mini" }), budget: { calls: 2000 } });
 * const reward = judgeReward({ judge, mode: "listwise", rubric: "Polite, brief, and solves the customer's problem." });
 */
export function createJudge(options: JudgeOptions, clock: Clock = systemClock): Judge {
  const o = parseOptions(judgeSchema, options, "createJudge()");
  if (o.deterministic && (o.temperature !== 0 || o.cache === false)) {
    throw new StatesetError(
      "INVALID_OPTION",
      `createJudge() is deterministic, but ${o.cache === false ? "cache is false" : `temperature is ${o.temperature}`}.`,
      { hint: "Set deterministic: false to allow it." },
    );
  }
  if (o.budget.cost !== undefined && !o.prices) {
    throw new StatesetError("INVALID_OPTION", "createJudge() has a budget.cost but no prices to compute costs from.");
  }
  const cache = o.cache === false ? undefined : createAnswerCache(o.cache?.file);
  const breaker = createBreaker(o.breaker, clock.now, o.model.id);
  const limit = createLimiter(o.concurrency);
  const inFlight = new Map<string, Promise<string>>();
  const reserved = { calls: 0, promptTokens: 0, completionTokens: 0 };
  const stats: JudgeStats = {
    questions: 0,
    failed: 0,
    calls: 0,
    retries: 0,
    cacheHits: 0,
    promptTokens: 0,
    completionTokens: 0,
    estimatedUsage: 0,
    cost: 0,
    circuitOpened: 0,
    failures: {
      "rate-limit": 0,
      server: 0,
      network: 0,
      timeout: 0,
      rejected: 0,
      malformed: 0,
      "circuit-open": 0,
      budget: 0,
    },
  };

  const costOf = (prompt: number, completion: number) =>
    o.prices ? (prompt * o.prices.prompt + completion * o.prices.completion) / 1e6 : 0;

  /** Which limit a call of this size could pass, given what is spent and in flight. */
  function overBudget(promptTokens: number): string | undefined {
    const { calls, tokens, cost } = o.budget;
    const prompt = stats.promptTokens + reserved.promptTokens + promptTokens;
    const completion = stats.completionTokens + reserved.completionTokens + o.maxTokens;
    if (calls !== undefined && stats.calls + reserved.calls + 1 > calls) return `${calls} calls`;
    if (tokens !== undefined && prompt + completion > tokens) return `${tokens} tokens`;
    if (cost !== undefined && costOf(prompt, completion) > cost) return `a cost of ${cost}`;
    return undefined;
  }

  /** What the last failed call said. */
  let lastFailure: string | undefined;

  /** One call to the model, inside the breaker, the budget and the time limit. */
  async function attempt(messages: readonly Message[], seed: number, signal: AbortSignal | undefined): Promise<string> {
    const wait = breaker.waitMs();
    if (wait > 0) {
      const after = lastFailure === undefined ? "" : `, after ${lastFailure}`;
      throw new AttemptFailed(
        "circuit-open",
        `its circuit is open for another ${Math.ceil(wait)} ms${after}`,
        true,
        wait,
      );
    }
    const estimate = estimateTokens(messages.map((m) => m.content).join("\n"));
    const over = overBudget(estimate);
    if (over) {
      breaker.withdraw();
      throw new AttemptFailed("budget", `its budget of ${over} is spent`, false);
    }
    reserved.calls++;
    reserved.promptTokens += estimate;
    reserved.completionTokens += o.maxTokens;
    let reply: JudgeReply | undefined;
    try {
      const { temperature, maxTokens, timeoutMs } = o;
      reply = await withDeadline((own) => o.model.complete({ messages, temperature, seed, maxTokens, signal: own }), {
        timeoutMs,
        timedOut: () => new AttemptFailed("timeout", `no answer within ${timeoutMs} ms`, true),
        signal,
        during: "while a judge was asked",
      });
      breaker.report(true);
      return reply.text;
    } catch (thrown) {
      if (signal?.aborted) {
        breaker.withdraw();
        throw thrown;
      }
      const failure = asAttemptFailure(thrown);
      lastFailure = failure.message;
      // An endpoint that limits its rate is alive and says when to come back: many calls at once must not cut it off.
      if (failure.kind === "rate-limit") breaker.withdraw();
      // A rejected request (400, 401, …) or an unreadable body is the request's fault, not a sign of an overloaded endpoint.
      else breaker.report(failure.kind === "rejected" || failure.kind === "malformed");
      throw failure;
    } finally {
      reserved.calls--;
      reserved.promptTokens -= estimate;
      reserved.completionTokens -= o.maxTokens;
      stats.calls++;
      // A failed call is billed its prompt: an endpoint that times out may well charge for it.
      stats.promptTokens += reply?.usage?.promptTokens ?? estimate;
      stats.completionTokens += reply?.usage?.completionTokens ?? (reply ? estimateTokens(reply.text) : 0);
      if (reply && !reply.usage) stats.estimatedUsage++;
      stats.cost = costOf(stats.promptTokens, stats.completionTokens);
      stats.circuitOpened = breaker.opened;
    }
  }

  /** Attempts until an answer can be read; waits grow exponentially with full jitter in their upper half. */
  async function answer(question: Question<unknown>, key: string): Promise<string> {
    let closed = 0;
    for (let n = 0; ; n++) {
      // Asking the same model the same thing with the same seed would get the same unreadable answer.
      const seed = seedOf(question.seed ?? o.seed, "judge", n);
      try {
        const text = await limit(() => attempt(question.messages, seed, question.signal), question.untimed);
        try {
          question.read(text);
        } catch (thrown) {
          throw new AttemptFailed("malformed", `its answer could not be read: ${messageOf(thrown)}`, true);
        }
        cache?.set(key, text);
        return text;
      } catch (thrown) {
        if (!(thrown instanceof AttemptFailed)) throw thrown;
        stats.failures[thrown.kind]++;
        // Waited for once: an endpoint that then fails its trial is down, and whoever waits for the score should hear why in time.
        const down = thrown.kind === "circuit-open" && ++closed > 1 && thrown.retryAfterMs! > trialMs;
        if (down || !thrown.retryable || n + 1 >= o.retry.attempts) {
          const tries = n === 0 ? "" : ` after ${n + 1} attempts`;
          throw new StatesetError("JUDGE_FAILED", `The judge ${o.model.id} gave no score${tries}: ${thrown.message}.`, {
            cause: thrown,
          });
        }
        stats.retries++;
        const most = Math.min(o.retry.maxMs, o.retry.baseMs * 2 ** n);
        const jitter = createRandom(seedOf(question.seed ?? o.seed, "jitter", key, n)).next();
        await clock.sleep(
          Math.max(most * (0.5 + 0.5 * jitter), Math.min(thrown.retryAfterMs ?? 0, o.retry.maxMs)),
          question.signal,
        );
      }
    }
  }

  return {
    id: o.model.id,
    async ask<T>(question: Question<T>): Promise<T> {
      stats.questions++;
      try {
        const key = keyOf(o.model.id, question.messages, { ...o, seed: question.seed ?? o.seed });
        const known = cache?.get(key);
        if (known !== undefined) {
          stats.cacheHits++;
          return question.read(known);
        }
        if (!cache) return question.read(await answer(question, key));
        let pending = inFlight.get(key);
        if (pending) stats.cacheHits++;
        else {
          pending = answer(question, key).finally(() => inFlight.delete(key));
          inFlight.set(key, pending);
        }
        return question.read(await pending);
      } catch (thrown) {
        stats.failed++;
        throw thrown;
      }
    },
    stats: () => structuredClone(stats),
  };
}

class AttemptFailed extends Error {
  readonly kind: FailureKind;
  readonly retryable: boolean;
  readonly retryAfterMs: number | undefined;
  constructor(kind: FailureKind, message: string, retryable: boolean, retryAfterMs?: number) {
    super(message);
    this.kind = kind;
    this.retryable = retryable;
    this.retryAfterMs = retryAfterMs;
  }
}

function asAttemptFailure(thrown: unknown): AttemptFailed {
  if (thrown instanceof AttemptFailed) return thrown;
  if (thrown instanceof JudgeModelError) {
    return new AttemptFailed(thrown.kind, thrown.message, thrown.retryable, thrown.retryAfterMs);
  }
  return new AttemptFailed("network", messageOf(thrown), true);
}

function keyOf(id: string, messages: readonly Message[], o: { temperature: number; seed: number; maxTokens: number }) {
  const text = JSON.stringify([id, o.temperature, o.seed, o.maxTokens, messages.map((m) => [m.role, m.content])]);
  return createHash("sha256").update(text).digest("hex");
}

function estimateTokens(text: string): number {
  return Math.ceil(text.length / 4);
}

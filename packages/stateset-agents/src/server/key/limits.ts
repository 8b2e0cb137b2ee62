/** How much each key may ask for: requests and tokens in any 60 seconds, and requests at a time. */
import { HttpError } from "../http-error.ts";
import type { Caller } from "./caller.ts";

/** One request that was let in. */
export interface Permit {
  /** Takes so many tokens more off the key's minute, or throws 429. */
  reserve(tokens: number): void;
  /** What is left to the key, under the names that OpenAI's clients know. */
  headers(): Record<string, string>;
  /** To be called once, whatever became of the request: with the tokens it really took, so that the rest of what was reserved is given back. */
  settle(usedTokens: number): void;
}

export interface KeyLimits {
  /** Lets a request in, before anything is done for it, or throws 429. */
  enter(caller: Caller): Permit;
  /** Keys that are remembered. */
  readonly known: number;
}

/** `now` in milliseconds, of a clock that is never set back. */
export function createKeyLimits(now: () => number = () => performance.now()): KeyLimits {
  const used = new Map<string, { requests: LastMinute; tokens: LastMinute; running: number }>();
  let tidied = now();
  /** Keys come and go; of one that has been idle for a minute there is nothing to know. */
  const tidy = () => {
    if (now() - tidied < seconds * 1000) return;
    tidied = now();
    for (const [keyId, { requests, tokens, running }] of used) {
      if (running === 0 && requests.isEmpty(tidied) && tokens.isEmpty(tidied)) used.delete(keyId);
    }
  };
  return {
    get known() {
      return used.size;
    },
    enter(caller) {
      tidy();
      const { requestsPerMinute, tokensPerMinute, concurrency } = caller.limits;
      const own = used.get(caller.keyId) ?? { requests: new LastMinute(), tokens: new LastMinute(), running: 0 };
      const headers = () => ({
        ...told("requests", requestsPerMinute, own.requests, now()),
        ...told("tokens", tokensPerMinute, own.tokens, now()),
      });
      const refuse = (what: string, waitMs: number | undefined) =>
        new HttpError(429, `Too much for this API key: ${what}.`, {
          code: "rate_limit_exceeded",
          headers: {
            ...headers(),
            ...(waitMs === undefined ? { "x-should-retry": "false" } : retryAfter(waitMs)),
          },
        });
      const requestWait = own.requests.waitMs(1, requestsPerMinute, now());
      if (requestWait > 0) throw refuse(`${requestsPerMinute} requests a minute`, requestWait);
      if (concurrency !== undefined && own.running >= concurrency) {
        throw refuse(`${concurrency} requests at a time`, 1000);
      }
      // A key without limits is not remembered.
      if (requestsPerMinute ?? tokensPerMinute ?? concurrency) used.set(caller.keyId, own);
      own.requests.add(1, now());
      own.running++;
      let settled = false;
      let reserved = 0;
      let second: number | undefined;
      return {
        headers,
        reserve(tokens) {
          if (tokensPerMinute !== undefined && reserved + tokens > tokensPerMinute) {
            throw refuse(`the request may take ${reserved + tokens} tokens, of ${tokensPerMinute} a minute`, undefined);
          }
          const wait = own.tokens.waitMs(tokens, tokensPerMinute, now());
          if (wait > 0) throw refuse(`${tokensPerMinute} tokens a minute`, wait);
          second = own.tokens.add(tokens, now());
          reserved += tokens;
        },
        settle(usedTokens) {
          if (settled) return;
          settled = true;
          own.running--;
          if (second !== undefined) own.tokens.correct(second, usedTokens - reserved, now());
        },
      };
    },
  };
}

/** In milliseconds for OpenAI's clients, and in seconds for all others. */
function retryAfter(ms: number): Record<string, string> {
  return { "retry-after-ms": String(Math.ceil(ms)), "retry-after": String(Math.ceil(ms / 1000)) };
}

const seconds = 60;

/** Sums of each of the last 60 seconds and the one that runs: whatever 60 seconds one looks at, no more than the limit was let in. */
class LastMinute {
  readonly #sums = new Map<number, number>();

  /** How long until `amount` more stays within the limit; 0 for now. */
  waitMs(amount: number, limit: number | undefined, now: number): number {
    if (limit === undefined) return 0;
    this.#forget(now);
    let over = this.total() + amount - limit;
    if (over <= 0) return 0;
    for (const [second, sum] of this.#sums) {
      over -= sum;
      if (over <= 0) return goneAt(second) - now;
    }
    return seconds * 1000;
  }

  add(amount: number, now: number): number {
    this.#forget(now);
    const second = Math.floor(now / 1000);
    this.#sums.set(second, (this.#sums.get(second) ?? 0) + amount);
    return second;
  }

  /** Of a second that is long gone there is nothing to correct. */
  correct(second: number, amount: number, now: number): void {
    this.#forget(now);
    const sum = this.#sums.get(second);
    if (sum !== undefined) this.#sums.set(second, Math.max(0, sum + amount));
  }

  total(): number {
    return [...this.#sums.values()].reduce((sum, one) => sum + one, 0);
  }

  isEmpty(now: number): boolean {
    this.#forget(now);
    return this.#sums.size === 0;
  }

  /** When nothing of it counts any more. */
  emptyInMs(now: number): number {
    this.#forget(now);
    const last = [...this.#sums].findLast(([, sum]) => sum > 0)?.[0];
    return last === undefined ? 0 : goneAt(last) - now;
  }

  #forget(now: number): void {
    for (const second of this.#sums.keys()) if (goneAt(second) <= now) this.#sums.delete(second);
  }
}

/** What came at the end of a second still counts 60 seconds later. */
function goneAt(second: number): number {
  return (second + 1 + seconds) * 1000;
}

function told(name: string, limit: number | undefined, of: LastMinute, now: number): Record<string, string> {
  if (limit === undefined) return {};
  const reset = of.emptyInMs(now);
  return {
    [`x-ratelimit-limit-${name}`]: String(limit),
    [`x-ratelimit-remaining-${name}`]: String(Math.max(0, limit - of.total())),
    [`x-ratelimit-reset-${name}`]: duration(reset),
  };
}

/** "850ms", "6s", "1m1s": as OpenAI writes them. */
function duration(ms: number): string {
  if (ms < 1000) return `${Math.ceil(ms)}ms`;
  const whole = Math.ceil(ms / 1000);
  return whole < 60 ? `${whole}s` : `${Math.floor(whole / 60)}m${whole % 60}s`;
}

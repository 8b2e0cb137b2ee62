import { describe, expect, it } from "vitest";
import { createRandom } from "../../random.ts";
import { refusal } from "../../test-support/refusal.ts";
import type { HttpError } from "../http-error.ts";
import type { Caller, CallerLimits } from "./caller.ts";
import { createKeyLimits, type KeyLimits, type Permit } from "./limits.ts";

const callerWith = (limits: CallerLimits, keyId = "k"): Caller => ({ keyId, project: "p", scopes: new Set(), limits });

function ask(limits: KeyLimits, caller: Caller, tokens: number): Permit {
  const permit = limits.enter(caller);
  permit.reserve(tokens);
  return permit;
}

describe("limits of a key", () => {
  it("let in no more requests than were given to any 60 seconds, and say when to come back", () => {
    let now = 10_000;
    const limits = createKeyLimits(() => now);
    const caller = callerWith({ requestsPerMinute: 5 });
    const random = createRandom(1);
    const entered: number[] = [];
    for (let i = 0; i < 2000; i++) {
      now += random.below(4000);
      try {
        ask(limits, caller, 1).settle(1);
        entered.push(now);
      } catch (error) {
        const { status, details } = error as HttpError;
        expect([status, details.code]).toEqual([429, "rate_limit_exceeded"]);
        const wait = Number(details.headers!["retry-after-ms"]);
        expect(wait).toBeGreaterThan(0);
        now += wait;
        ask(limits, caller, 1).settle(1);
        entered.push(now);
      }
    }
    for (const [i, at] of entered.entries())
      expect(entered.filter((one) => one >= at && one < at + 60_000).length, `${i}`).toBeLessThanOrEqual(5);
  });

  it("forget a key that has asked for nothing in the last minute and has nothing running", () => {
    let now = 0;
    const limits = createKeyLimits(() => now);
    const caller = (i: number) => callerWith({ requestsPerMinute: 5, concurrency: 1 }, `k${i}`);
    const running = limits.enter(caller(0));
    for (let i = 1; i < 1000; i++) ask(limits, caller(i), 10).settle(10);
    expect(limits.known).toBe(1000);
    now = 62_000;
    limits.enter(caller(1)).settle(0);
    expect(limits.known).toBe(2);
    // What runs still counts.
    expect(refusal(() => limits.enter(caller(0))).message).toContain("1 requests at a time");
    running.settle(0);
    now = 130_000;
    limits.enter(caller(0)).settle(0);
    expect(limits.known).toBe(1);
  });

  it("reserve what a request may take, and give back what it did not", () => {
    let now = 0;
    const limits = createKeyLimits(() => now);
    const caller = callerWith({ tokensPerMinute: 100 });
    const first = ask(limits, caller, 80);
    expect(first.headers()).toEqual({
      "x-ratelimit-limit-tokens": "100",
      "x-ratelimit-remaining-tokens": "20",
      "x-ratelimit-reset-tokens": "1m1s",
    });
    expect(refusal(() => ask(limits, caller, 30)).details.headers).toMatchObject({
      "retry-after-ms": "61000",
      "retry-after": "61",
    });
    first.settle(10);
    first.settle(0);
    expect(ask(limits, caller, 90).headers()["x-ratelimit-remaining-tokens"]).toBe("0");
    now = 60_500;
    expect(refusal(() => ask(limits, caller, 1)).details.headers).toMatchObject({
      "retry-after-ms": "500",
      "x-ratelimit-reset-tokens": "500ms",
    });
    now = 61_000;
    ask(limits, caller, 100);
  });

  it("count what was used beyond the estimate", () => {
    const limits = createKeyLimits(() => 0);
    const caller = callerWith({ tokensPerMinute: 100 });
    ask(limits, caller, 10).settle(95);
    expect(() => ask(limits, caller, 6)).toThrow(/100 tokens a minute/);
  });

  it("say of a request that could never fit that it need not be tried again", () => {
    const error = refusal(() =>
      ask(
        createKeyLimits(() => 0),
        callerWith({ tokensPerMinute: 100 }),
        101,
      ),
    );
    expect(error.status).toBe(429);
    expect(error.details.headers).toMatchObject({ "x-should-retry": "false" });
    expect(error.details.headers).not.toHaveProperty("retry-after-ms");
  });

  it("count what one request reserves bit by bit as one", () => {
    const limits = createKeyLimits(() => 0);
    const permit = limits.enter(callerWith({ tokensPerMinute: 100 }));
    permit.reserve(60);
    expect(() => permit.reserve(50)).toThrow(/may take 110 tokens, of 100/);
    permit.reserve(40);
    permit.settle(30);
    expect(permit.headers()["x-ratelimit-remaining-tokens"]).toBe("70");
  });

  it("hold requests that run, until they are settled, once", () => {
    const limits = createKeyLimits(() => 0);
    const caller = callerWith({ concurrency: 2 });
    const [first] = [ask(limits, caller, 1), ask(limits, caller, 1)];
    expect(refusal(() => ask(limits, caller, 1)).details.headers).toEqual({
      "retry-after-ms": "1000",
      "retry-after": "1",
    });
    first.settle(1);
    first.settle(1);
    ask(limits, caller, 1);
    expect(() => ask(limits, caller, 1)).toThrow(/2 requests at a time/);
  });

  it("are each key's own, and a refused request takes nothing", () => {
    const limits = createKeyLimits(() => 0);
    const flooding = callerWith({ requestsPerMinute: 1, tokensPerMinute: 10 }, "flood");
    ask(limits, flooding, 1);
    for (let i = 0; i < 100; i++) expect(() => ask(limits, flooding, 9)).toThrow(/1 requests a minute/);
    expect(refusal(() => ask(limits, flooding, 9)).details.headers!["x-ratelimit-remaining-tokens"]).toBe("9");
    expect(ask(limits, callerWith({ requestsPerMinute: 1 }, "quiet"), 1).headers()).toEqual({
      "x-ratelimit-limit-requests": "1",
      "x-ratelimit-remaining-requests": "0",
      "x-ratelimit-reset-requests": "1m1s",
    });
    expect(ask(limits, callerWith({}, "free"), 1e9).headers()).toEqual({});
  });
});

import { describe, expect, it } from "vitest";
import type { JudgeOptions } from "../../endpoint/judge.ts";
import { answer, endpoint, fail, fakeClock, judgeAt, key, rubric, talk } from "../../test-support/judge-endpoint.ts";
import { judgeReward } from "./judge-reward.ts";

describe("a judge that fails", () => {
  it("retries 429 and 500 with growing jittered waits, and obeys retry-after", async () => {
    const { baseURL } = await endpoint((_, __, response, call) => {
      if (call === 1) fail(response, 429, { "retry-after": "2" });
      else if (call === 2) fail(response, 500);
      else answer(response, '{"score": 10}');
    });
    const clocks = [fakeClock(), fakeClock()];
    const judge = judgeAt(baseURL, { retry: { baseMs: 100 } }, clocks[0]);
    expect((await judgeReward({ judge, rubric, mode: "absolute" }).compute(talk("a"))).score).toBe(1);
    expect(judge.stats()).toMatchObject({ calls: 3, retries: 2, failed: 0, failures: { "rate-limit": 1, server: 1 } });
    expect(clocks[0]!.slept[0]).toBe(2000);
    expect(clocks[0]!.slept[1]).toBeGreaterThanOrEqual(100);
    expect(clocks[0]!.slept[1]).toBeLessThanOrEqual(200);
  });

  it("times out, retries, and then fails by name without a score", async () => {
    const { baseURL } = await endpoint(() => {});
    const judge = judgeAt(baseURL, { timeoutMs: 30, retry: { attempts: 2 } });
    await expect(judgeReward({ judge, rubric, mode: "absolute" }).compute(talk("a"))).rejects.toMatchObject({
      code: "JUDGE_FAILED",
      message: expect.stringMatching(/after 2 attempts: no answer within 30 ms/),
    });
    expect(judge.stats()).toMatchObject({ failed: 1, calls: 2, failures: { timeout: 2 } });
  });

  it("does not retry a refused request, and never shows the key even when the server echoes it", async () => {
    const { baseURL } = await endpoint((_, request, response) =>
      fail(response, 401, {}, `bad key ${request.headers.authorization}`),
    );
    const judge = judgeAt(baseURL);
    const failure = await judgeReward({ judge, rubric, mode: "absolute" })
      .compute(talk("a"))
      .catch((thrown: Error) => thrown);
    expect(failure).toMatchObject({ code: "JUDGE_FAILED", message: expect.stringContaining("HTTP 401") });
    expect(JSON.stringify([failure, String(failure), (failure as Error).stack, judge.id, judge.stats()])).not.toContain(
      key,
    );
    expect(judge.stats().calls).toBe(1);
  });

  it("asks again with another seed after an unreadable answer, then gives up; a score out of range is unreadable", async () => {
    const replies = ["I like it!", '{"score": 11}', '{"score": "NaN"}', "<think>score: 9</think>"];
    const { baseURL, bodies } = await endpoint((_, __, response, call) => answer(response, replies[call - 1]!));
    const judge = judgeAt(baseURL, { retry: { baseMs: 0 } });
    await expect(judgeReward({ judge, rubric, mode: "absolute" }).compute(talk("a"))).rejects.toThrow(
      /could not be read/,
    );
    expect(judge.stats().failures.malformed).toBe(4);
    expect(new Set(bodies.map((body) => body.seed)).size).toBe(4);
  });

  it("counts a body that is not a chat answer, and a dead endpoint", async () => {
    const { baseURL } = await endpoint((_, __, response, call) =>
      call === 1 ? response.end("<html>") : answer(response, '{"score": 4}'),
    );
    const judge = judgeAt(baseURL);
    await judgeReward({ judge, rubric, mode: "absolute" }).compute(talk("a"));
    expect(judge.stats()).toMatchObject({ failed: 0, failures: { malformed: 1 } });
    const dead = judgeAt("http://127.0.0.1:1/v1", { retry: { attempts: 2 } });
    await expect(judgeReward({ judge: dead, rubric, mode: "absolute" }).compute(talk("a"))).rejects.toThrow(
      /no connection/,
    );
    expect(dead.stats().failures.network).toBe(2);
  });

  it("opens the circuit after failures in a row, and closes it after a trial that works", async () => {
    let healthy = false;
    const { baseURL, bodies } = await endpoint((_, __, response) =>
      healthy ? answer(response, '{"score": 4}') : fail(response, 503),
    );
    const clock = fakeClock();
    const judge = judgeAt(baseURL, { retry: { attempts: 1 }, breaker: { failures: 3, resetMs: 1000 } }, clock);
    const reward = judgeReward({ judge, rubric, mode: "absolute" });
    for (const text of "abc") await expect(reward.compute(talk(text))).rejects.toThrow(/HTTP 503/);
    await expect(reward.compute(talk("d"))).rejects.toThrow(/circuit is open/);
    expect(bodies).toHaveLength(3);
    clock.time += 1001;
    await expect(reward.compute(talk("e"))).rejects.toThrow(/HTTP 503/);
    await expect(reward.compute(talk("f"))).rejects.toThrow(/circuit is open/);
    clock.time += 1001;
    healthy = true;
    expect((await reward.compute(talk("g"))).score).toBeCloseTo(3 / 9);
    expect((await reward.compute(talk("h"))).score).toBeCloseTo(3 / 9);
    expect(judge.stats()).toMatchObject({ failed: 6, circuitOpened: 2, failures: { server: 4, "circuit-open": 2 } });
  });

  it("waits once for an endpoint that is down, and says what it died of", async () => {
    const { baseURL } = await endpoint((_, __, response) => fail(response, 503));
    const clock = fakeClock();
    const options = { retry: { attempts: 9, baseMs: 10 }, breaker: { failures: 1, resetMs: 5000 } };
    const reward = judgeReward({ judge: judgeAt(baseURL, options, clock), rubric, mode: "absolute" });
    await expect(reward.compute(talk("a"))).rejects.toThrow(/circuit is open for another \d+ ms, after .*HTTP 503/);
    expect(clock.slept.filter((ms) => ms > 4900)).toHaveLength(1);
  });

  it("waits for an open circuit to let a call through, instead of losing the question", async () => {
    const { baseURL } = await endpoint((_, __, response, call) =>
      call <= 2 ? fail(response, 503) : answer(response, '{"score": 4}'),
    );
    const clock = fakeClock();
    const judge = judgeAt(baseURL, { retry: { baseMs: 10 }, breaker: { failures: 2, resetMs: 5000 } }, clock);
    const result = await judgeReward({ judge, rubric, mode: "absolute" }).compute(talk("a"));
    expect(result.score).toBeCloseTo(3 / 9);
    expect(judge.stats()).toMatchObject({ failed: 0, circuitOpened: 1, failures: { server: 2, "circuit-open": 1 } });
    expect(Math.max(...clock.slept)).toBeGreaterThan(4900);
  });

  it("is not cut off by a rate limit that many calls run into at once", async () => {
    const { baseURL } = await endpoint((_, __, response, call) =>
      call <= 8 ? fail(response, 429, { "retry-after": "1" }) : answer(response, '{"score": 4}'),
    );
    const judge = judgeAt(baseURL, { concurrency: 8, breaker: { failures: 3 } });
    const reward = judgeReward({ judge, rubric, mode: "absolute" });
    await Promise.all([..."abcdefgh"].map((text) => reward.compute(talk(text))));
    expect(judge.stats()).toMatchObject({ failed: 0, circuitOpened: 0, failures: { "rate-limit": 8 } });
  });

  it.each([
    [{ budget: { calls: 2 } }, "2 calls"],
    [{ budget: { tokens: 700 } }, "700 tokens"],
    [{ budget: { cost: 0.003 }, prices: { prompt: 10, completion: 5 } }, "a cost of 0.003"],
  ] as [Partial<JudgeOptions>, string][])("stops at the budget %j", async (options, said) => {
    const { baseURL, bodies } = await endpoint((_, __, response) => answer(response, '{"score": 4}'));
    const judge = judgeAt(baseURL, { ...options, maxTokens: 100, concurrency: 1 });
    const reward = judgeReward({ judge, rubric, mode: "absolute" });
    const results = await Promise.allSettled([..."abcdefghijklmnop"].map((text) => reward.compute(talk(text))));
    const failed = results.filter((r) => r.status === "rejected");
    expect(failed.length).toBeGreaterThan(0);
    expect(failed.length).toBeLessThan(16);
    expect(String(failed[0]!.reason)).toContain(`budget of ${said} is spent`);
    expect(judge.stats().failures.budget).toBe(failed.length);
    const spent = judge.stats();
    expect(bodies).toHaveLength(spent.calls);
    expect(spent.calls).toBeLessThanOrEqual(options.budget?.calls ?? 99);
    expect(spent.promptTokens + spent.completionTokens).toBeLessThanOrEqual(options.budget?.tokens ?? 1e9);
    expect(spent.cost).toBeLessThanOrEqual(options.budget?.cost ?? 1e9);
  });

  it("keeps to its concurrency with a slow endpoint", async () => {
    const { baseURL, mostAtOnce } = await endpoint((_, __, response) => {
      setTimeout(() => answer(response, '{"score": 4}'), 15);
    });
    const reward = judgeReward({ judge: judgeAt(baseURL, { concurrency: 2 }), rubric, mode: "absolute" });
    await Promise.all([..."abcdefgh"].map((text) => reward.compute(talk(text))));
    expect(mostAtOnce()).toBe(2);
  });

  it("stops when the run is aborted, and does not count that against the endpoint", async () => {
    const { baseURL } = await endpoint(() => {});
    const judge = judgeAt(baseURL, { breaker: { failures: 1 } });
    const stop = new AbortController();
    const pending = judgeReward({ judge, rubric, mode: "absolute" }).compute(talk("a"), { signal: stop.signal });
    setTimeout(() => stop.abort(new Error("stopped by the user")), 20);
    await expect(pending).rejects.toMatchObject({ code: "ABORTED", cause: new Error("stopped by the user") });
    expect(judge.stats().circuitOpened).toBe(0);
  });
});

import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { createTablePolicy } from "../../test-support/table-policy.ts";
import type { RewardInput } from "../reward-function.ts";
import { type Clock, createJudge, type JudgeOptions } from "./judge.ts";
import { judgeReward } from "./judge-reward.ts";
import { openaiJudgeModel } from "./openai-judge-model.ts";
import { policyJudgeModel } from "./policy-judge-model.ts";

type Handler = (body: ChatBody, request: IncomingMessage, response: ServerResponse, call: number) => void;
interface ChatBody {
  model: string;
  messages: { role: string; content: string }[];
  temperature: number;
  seed: number;
  max_tokens: number;
}

const servers: Server[] = [];
afterEach(async () => {
  await Promise.all(
    servers.splice(0).map((server) => {
      server.closeAllConnections();
      return new Promise((done) => server.close(done));
    }),
  );
});

/** A chat endpoint whose every call is answered by the handler. */
async function endpoint(handler: Handler): Promise<{ baseURL: string; bodies: ChatBody[]; mostAtOnce: () => number }> {
  const bodies: ChatBody[] = [];
  let open = 0;
  let most = 0;
  const server = createServer((request, response) => {
    most = Math.max(most, ++open);
    response.on("close", () => open--);
    let text = "";
    request.on("data", (chunk) => {
      text += chunk;
    });
    request.on("end", () => {
      const body = JSON.parse(text) as ChatBody;
      bodies.push(body);
      handler(body, request, response, bodies.length);
    });
  });
  servers.push(server);
  await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
  return { baseURL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, bodies, mostAtOnce: () => most };
}

function answer(
  response: ServerResponse,
  content: string,
  usage: unknown = { prompt_tokens: 100, completion_tokens: 10 },
) {
  response.setHeader("content-type", "application/json");
  response.end(JSON.stringify({ choices: [{ message: { role: "assistant", content } }], usage }));
}

function fail(response: ServerResponse, status: number, headers: Record<string, string> = {}, body = "no") {
  response.writeHead(status, headers);
  response.end(body);
}

/** Sleeps take no time but move the clock; what was slept is kept. */
function fakeClock(): Clock & { slept: number[]; time: number } {
  const clock = {
    slept: [] as number[],
    time: 0,
    now: () => clock.time,
    async sleep(ms: number) {
      clock.slept.push(ms);
      clock.time += ms;
    },
  };
  return clock;
}

const key = "sk-secret-123";
const judgeAt = (baseURL: string, options: Partial<JudgeOptions> = {}, clock: Clock = fakeClock()) =>
  createJudge({ model: openaiJudgeModel({ model: "m", baseURL, apiKey: key }), ...options }, clock);
const talk = (reply: string): RewardInput => ({
  turns: [
    { role: "user", content: "Where is my order?" },
    { role: "assistant", content: reply },
  ],
});
const rubric = "Polite and short.";

describe("absolute scores", () => {
  it("maps the judge's scale to 0…1 and keeps its reason", async () => {
    const { baseURL, bodies } = await endpoint((_, __, response) => answer(response, '{"reason":"kind","score":7}'));
    const reward = judgeReward({ judge: judgeAt(baseURL), rubric, mode: "absolute", scale: { min: 1, max: 10 } });
    const result = await reward.compute({ ...talk("It comes today."), scenario: { id: "s", goal: "Find the order" } });
    expect(result.score).toBeCloseTo(6 / 9);
    expect(result.breakdown).toEqual({ judge: result.score });
    expect(result.metadata).toMatchObject({ raw: 7, reason: "kind" });
    expect(bodies[0]).toMatchObject({ model: "m", temperature: 0, max_tokens: 512 });
    expect(bodies[0]!.messages[0]!.content).toContain("Find the order");
  });

  it("lets the body be changed for endpoints that want other fields, and keeps their answers apart", async () => {
    const { baseURL, bodies } = await endpoint((_, __, response) => answer(response, '{"score": 5}'));
    const extraBody = { max_tokens: undefined, temperature: undefined, max_completion_tokens: 64, model: "other" };
    const model = openaiJudgeModel({ model: "m", baseURL, extraBody });
    const reward = judgeReward({ judge: createJudge({ model }), rubric, mode: "absolute" });
    await reward.compute(talk("Hello"));
    expect(bodies[0]).toMatchObject({ model: "m", max_completion_tokens: 64 });
    expect(Object.keys(bodies[0]!)).not.toContain("max_tokens");
    expect(Object.keys(bodies[0]!)).not.toContain("temperature");
    expect(model.id).not.toBe(openaiJudgeModel({ model: "m", baseURL }).id);
    expect(model.id).not.toBe(openaiJudgeModel({ model: "m", baseURL, extraBody: { max_completion_tokens: 64 } }).id);
  });

  it("asks each question once: the second time, and the same question at the same time, come from the cache", async () => {
    const { baseURL, bodies } = await endpoint((_, __, response) => answer(response, "Score: 3/10"));
    const judge = judgeAt(baseURL);
    const reward = judgeReward({ judge, rubric, mode: "absolute" });
    await Promise.all([reward.compute(talk("a")), reward.compute(talk("a"))]);
    await reward.compute(talk("a"));
    expect(bodies).toHaveLength(1);
    expect(judge.stats()).toMatchObject({
      questions: 3,
      calls: 1,
      cacheHits: 2,
      promptTokens: 100,
      completionTokens: 10,
    });
  });

  it("keeps answers in a file between judges and survives a line cut short by a crash", async () => {
    const { baseURL, bodies } = await endpoint((_, __, response) => answer(response, '{"score": 5}'));
    const file = join(mkdtempSync(join(tmpdir(), "judge-")), "cache.jsonl");
    await judgeReward({ judge: judgeAt(baseURL, { cache: { file } }), rubric, mode: "absolute" }).compute(talk("a"));
    writeFileSync(file, `${readFileSync(file, "utf8")}{"key":"cut`);
    const second = judgeAt(baseURL, { cache: { file } });
    await judgeReward({ judge: second, rubric, mode: "absolute" }).compute(talk("a"));
    await judgeReward({ judge: second, rubric, mode: "absolute" }).compute(talk("b"));
    expect(bodies).toHaveLength(2);
    expect(
      readFileSync(file, "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line).text),
    ).toEqual(['{"score": 5}', '{"score": 5}']);
    writeFileSync(file, `damage\n${readFileSync(file, "utf8")}`);
    expect(() => judgeAt(baseURL, { cache: { file } })).toThrow(/line 1/);
  });
});

describe("failures", () => {
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
    await expect(pending).rejects.toThrow("stopped by the user");
    expect(judge.stats().circuitOpened).toBe(0);
  });
});

describe("inside a group", () => {
  const group = ["rude", "fine thanks", "fine thanks please"].map(talk);
  /** Judges by the length of the last reply it is shown. */
  const lengths = (content: string) =>
    [...content.matchAll(/"content": "((?:rude|fine)[^"]*)"/g)].map((m) => m[1]!.length);

  it("ranks the whole group with one question, mapped back from its shuffled order", async () => {
    const { baseURL, bodies } = await endpoint((body, _, response) => {
      const shown = lengths(body.messages[1]!.content);
      answer(response, JSON.stringify({ scores: shown.map((n, i) => ({ id: i + 1, score: n / 20 })).reverse() }));
    });
    const reward = judgeReward({ judge: judgeAt(baseURL), rubric });
    const results = await Promise.all(group.map((member) => reward.compute(member, { group })));
    expect(results.map((r) => r.score)).toEqual([4 / 20, 11 / 20, 18 / 20]);
    expect(bodies).toHaveLength(1);
    expect(bodies[0]!.messages[1]!.content.match(/Where is my order/g)).toHaveLength(1);
  });

  it("compares pairs in both orders, so that a judge who always prefers the first teaches nothing", async () => {
    const { baseURL, bodies } = await endpoint((_, __, response) => answer(response, '{"winner": "A"}'));
    const reward = judgeReward({ judge: judgeAt(baseURL), rubric, mode: "pairwise" });
    const results = await Promise.all(group.map((member) => reward.compute(member, { group })));
    expect(results.map((r) => r.score)).toEqual([0.5, 0.5, 0.5]);
    expect(bodies).toHaveLength(6);
  });

  it("scores by the share of comparisons won, also with few opponents", async () => {
    const { baseURL } = await endpoint((body, _, response) => {
      const [a, b] = lengths(body.messages[1]!.content);
      answer(response, `{"winner": "${a! > b! ? "A" : a === b ? "tie" : "B"}"}`);
    });
    const five = ["rude", "fine a", "fine ab", "fine abc", "fine abcd"].map(talk);
    for (const [opponents, expected] of [
      [undefined, [0, 0.25, 0.5, 0.75, 1]],
      [2, [0, 0.5, 0.5, 0.5, 1]],
    ] as const) {
      const reward = judgeReward({
        judge: judgeAt(baseURL),
        rubric,
        mode: "pairwise",
        ...(opponents && { opponents }),
      });
      const results = await Promise.all(five.map((member) => reward.compute(member, { group: five })));
      expect(results.map((r) => r.score)).toEqual(expected);
    }
  });

  it("fails every member of a group whose ranking cannot be read, and asks anew on a retry", async () => {
    let good = false;
    const { baseURL } = await endpoint((_, __, response) =>
      answer(response, JSON.stringify({ scores: [1, 2, good ? 3 : 2].map((id) => ({ id, score: 0.5 })) })),
    );
    const judge = judgeAt(baseURL, { retry: { attempts: 1 } });
    const reward = judgeReward({ judge, rubric });
    const results = await Promise.allSettled(group.map((member) => reward.compute(member, { group })));
    expect(results.every((r) => r.status === "rejected")).toBe(true);
    good = true;
    expect((await reward.compute(group[0]!, { group })).score).toBe(0.5);
  });

  it("drops failed comparisons, says so, and fails a member that lost most of them", async () => {
    const { baseURL } = await endpoint((body, _, response) =>
      body.messages[1]!.content.includes("rude") ? fail(response, 400) : answer(response, '{"winner": "tie"}'),
    );
    const reward = judgeReward({ judge: judgeAt(baseURL), rubric, mode: "pairwise" });
    const four = ["rude", "fine a", "fine b", "fine c"].map(talk);
    const [rude, fine] = await Promise.allSettled(four.map((member) => reward.compute(member, { group: four })));
    expect(rude).toMatchObject({ status: "rejected", reason: { code: "JUDGE_FAILED" } });
    expect(fine).toMatchObject({ value: { score: 0.5, metadata: { comparisons: 4, failedComparisons: 2 } } });
  });

  it.each(["pairwise", "listwise"] as const)("scores alone in evaluations, also in mode %s", async (mode) => {
    const { baseURL, bodies } = await endpoint((body, _, response) =>
      answer(response, body.messages[1]!.content.includes("sorry") ? '{"score": 10}' : '{"score": 1}'),
    );
    const reward = judgeReward({ judge: judgeAt(baseURL), rubric, mode });
    const kind = [talk("I am sorry."), talk("So sorry.")];
    const scores = await Promise.all(kind.map((c) => reward.compute(c, { group: kind, evaluation: true })));
    // Among themselves these two would share what there is to win; alone both are as good as can be.
    expect(scores.map(({ score }) => score)).toEqual([1, 1]);
    expect(bodies).toHaveLength(2);
  });

  it("refuses to compare one conversation with nothing", async () => {
    const { baseURL } = await endpoint((_, __, response) => answer(response, '{"winner": "A"}'));
    const reward = judgeReward({ judge: judgeAt(baseURL), rubric, mode: "pairwise" });
    await expect(reward.compute(group[0]!)).rejects.toThrow(/one conversation alone/);
  });
});

describe("a local policy as judge", () => {
  it("answers from the policy, and reports what could not be read", async () => {
    const policy = createTablePolicy({ contextLength: 4096 });
    const judge = createJudge({ model: policyJudgeModel(policy), maxTokens: 8, retry: { attempts: 2, baseMs: 0 } });
    await expect(judgeReward({ judge, rubric, mode: "absolute" }).compute(talk("a"))).rejects.toThrow(/policy:table/);
    expect(judge.stats()).toMatchObject({ calls: 2, failures: { malformed: 2 }, estimatedUsage: 0 });
    const text = await judge.ask({ messages: [{ role: "user", content: "hello" }], read: (answerText) => answerText });
    expect(typeof text).toBe("string");
    expect(policyJudgeModel(policy, { id: "judge, second version" }).id).toBe("judge, second version");
  });
});

it("names bad options", () => {
  const model = openaiJudgeModel({ model: "m", baseURL: "http://localhost:1/v1" });
  expect(() => createJudge({ model, temperature: 1 })).toThrow(/deterministic/);
  expect(() => createJudge({ model, budget: { cost: 1 } })).toThrow(/prices/);
  expect(() => createJudge({ model, timeoutMS: 1 } as JudgeOptions)).toThrow(/timeoutMs/);
  expect(() => openaiJudgeModel({ model: "m", baseURL: "localhost" })).toThrow(/baseURL/);
});

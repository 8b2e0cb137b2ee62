import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { createJudge, type JudgeOptions } from "../../endpoint/judge.ts";
import { openaiJudgeModel } from "../../endpoint/openai-judge-model.ts";
import { policyJudgeModel } from "../../endpoint/policy-judge-model.ts";
import { answer, endpoint, fail, judgeAt, rubric, talk } from "../../test-support/judge-endpoint.ts";
import { createTablePolicy } from "../../test-support/table-policy.ts";
import { judgeReward } from "./judge-reward.ts";

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
    const file = join(temporaryFolder(), "cache.jsonl");
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

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { jsonScenarios, jsonScore } from "../benchmarks/real/json-task.ts";
import type { LearnJob, LearnResult, Scores } from "../benchmarks/real/learn.ts";
import { mathScenarios, mathScore } from "../benchmarks/real/math-task.ts";
import { mainModel, page, type RealRun } from "../benchmarks/real/report.ts";

const folder = mkdtempSync(join(tmpdir(), "real-"));
afterAll(() => rmSync(folder, { recursive: true }));

describe("the JSON task of bench:real", () => {
  const answer = { name: "Anna Miller", amount: 12.5, urgent: true };

  it("gives 1 to the object asked for and half of it where text stands around", () => {
    const object = JSON.stringify(answer);
    expect(jsonScore(object, answer)).toBeCloseTo(1);
    expect(jsonScore(`\n${object} \n`, answer)).toBeCloseTo(1);
    expect(jsonScore(`\`\`\`json\n${object}\n\`\`\``, answer)).toBeCloseTo(0.5);
  });

  it("counts keys, types and values apart", () => {
    // The types of two, the values of one.
    expect(jsonScore('{"name":"Anna","amount":"12.50","urgent":true}', answer)).toBeCloseTo(
      0.2 + 0.2 + 0.2 * (2 / 3) + 0.4 / 3,
    );
    // A key too many is one of four.
    expect(jsonScore(JSON.stringify({ ...answer, note: "" }), answer)).toBeCloseTo(0.2 + 0.8 * (3 / 4));
    expect(jsonScore("{}", answer)).toBeCloseTo(0.2);
  });

  it.each(["", "Anna Miller, 12.5", "[1]", "null", '{"name": "Anna', '"name"'])("gives nothing for %j", (reply) => {
    expect(jsonScore(reply, answer)).toBe(0);
  });

  it("writes every value into its message, and tests with other messages and values than it trains with", () => {
    const training = jsonScenarios("training", 200);
    const tested = [...jsonScenarios("heldOut", 40), ...jsonScenarios("newSchemas", 40)];
    const messageOf = (text: string) => text.slice(text.indexOf("Message:"));
    for (const { userResponses, metadata } of [...training, ...tested]) {
      const message = messageOf(userResponses[0]!);
      expect(message).not.toContain("{");
      for (const value of Object.values(metadata.answer as Record<string, unknown>)) {
        if (typeof value !== "boolean") expect(message).toContain(String(value));
      }
    }
    const trained = new Set(training.map(({ userResponses }) => messageOf(userResponses[0]!)));
    expect(tested.filter(({ userResponses }) => trained.has(messageOf(userResponses[0]!)))).toEqual([]);
    const keys = (some: typeof training) =>
      new Set(some.map(({ metadata }) => Object.keys(metadata.answer as object).join()));
    const known = keys(training);
    expect([...keys(jsonScenarios("newSchemas", 40))].filter((one) => known.has(one))).toEqual([]);
  });
});

describe("the math task of bench:real", () => {
  const question = "A box holds 12 pens, and a pen costs $2.\nFirst step: 5 boxes hold 12 * 5 = 60 pens.";

  it.each([
    ["60 * 2 = 120. The answer is 120.", 1],
    ["The answer is $120.00", 1],
    // True, of numbers of the question, and not what was asked.
    ["60 + 2 = 62. The answer is 62.", 0.3],
    ["60 * 2 = 130. The answer is 130.", 0.1],
    ["7 * 2 = 14. The answer is 14.", 0.1],
    ["60 * 2 = 120. The answer is 62.", 0.1],
    ["60 * 2 = 120.", 0],
    ["The answer is 120 or 62.", 0],
    ["", 0],
  ])("%j is worth %d", (reply, score) => {
    expect(mathScore(reply, question, "120")).toBeCloseTo(score);
  });

  it("keeps problems of two plain steps, each on one side of the split, with the first step worked out", () => {
    const lines = Array.from({ length: 60 }, (_, i) => ({
      id: `problem-${i}`,
      question: `Ann has ${i + 2} boxes of 3 pens and loses 1. How many pens has she?`,
      answer: `She had ${i + 2}*3 = <<${i + 2}*3=${3 * i + 6}>>${3 * i + 6} pens.\nNow ${3 * i + 6}-1 = <<${3 * i + 6}-1=${3 * i + 5}>>${3 * i + 5}.\n#### ${3 * i + 5}`,
      final: String(3 * i + 5),
    }));
    const hidden = {
      ...lines[0]!,
      id: "hidden",
      answer: "It is <<7*8=56>>56.\nSo <<56-9=47>>47.\n#### 47",
      final: "47",
    };
    const file = join(folder, "problems.jsonl");
    writeFileSync(file, [...lines, hidden].map((line) => JSON.stringify(line)).join("\n"));
    const parts = (["training", "tuning", "heldOut"] as const).map((part) => mathScenarios(part, 100, file));
    const ids = parts.flat().map(({ id }) => id);
    expect(ids.toSorted()).toEqual(lines.map(({ id }) => id).toSorted());
    expect(parts.every((part) => part.length > 0)).toBe(true);
    const [first] = parts.flat().filter(({ id }) => id === "problem-0");
    expect(first!.userResponses[0]).toMatch(/First step: She had 2\*3 = 6 pens\.$/);
    expect(first!.expected).toBe("5");
  });

  it("says which file is not there, and how to name or leave it out", () => {
    const missing = join(folder, "nowhere.jsonl");
    expect(() => mathScenarios("training", 1, missing)).toThrow(
      /not at .*nowhere\.jsonl\. Name it with --data.*--task json/,
    );
  });
});

describe("the page of bench:real", () => {
  const scores = (value: number): Scores => {
    const of = Array.from({ length: 20 }, (_, i) => (i < 20 * value ? 1 : 0));
    return { greedy: of, greedyPass: of, sampled: of, sampledPass: of, anyPass: of };
  };
  const run = (job: Partial<LearnJob>, value: number): RealRun => ({
    job: { part: "learn", model: mainModel, task: "json", variant: "default", steps: 40, seed: 11, sign: 1, ...job },
    result: {
      tests: { "held-out messages": scores(value) },
      rewards: [value],
      trainingSeconds: 1200,
    } as unknown as LearnResult,
    ...{ seconds: 1, cpuSeconds: 1, machine: "a machine" },
  });

  it("says what rose, what fell with the sign flipped, and what did not improve", () => {
    const untrained = run({ steps: 0, seed: 0 }, 0.5);
    const better = page({ runs: [untrained, run({}, 1), run({ seed: 12 }, 1), run({ sign: -1 }, 0.1)], tuning: [] });
    expect(better).toContain("| held-out messages | reward, greedy | 0.500");
    expect(better).toContain("| better | 1.000, 1.000 | 0.100 |");
    const same = page({ runs: [untrained, run({}, 0.5)], tuning: [] });
    expect(same).toContain("no difference shown");
    const worse = page({ runs: [untrained, run({}, 0)], tuning: [] });
    expect(worse).toContain("WORSE");
  });

  it("says beside what was timed what the machine could do", () => {
    const roofline = {
      ...{ simd: "amx", vector: "avx512", threads: 2 },
      ...{ gigaMultiplyAdds: { one: 59, all: 118 }, gigabytesRead: { one: 32, all: 60 } },
    };
    const stamp = { date: "2026-01-01", machine: "m", model: mainModel, roofline };
    const memory = { ...stamp, ours: { seconds: 1, peakBytes: 2 ** 30 } };
    const text = page({ speed: { ...stamp, decode: { 1: { ours: 1 } } }, memory, runs: [], tuning: [] });
    const said = /Machine: m\. Measured in the same run, one thread \/ 2: 59 \/ 118 billion f32/g;
    expect(text.match(said)).toHaveLength(2);
    const parity = { ...stamp, prompts: 1, tokens: 1 };
    const learnt = [run({ steps: 0, seed: 0 }, 0), run({}, 1)].map((one) => ({ ...one, machine: "m", roofline }));
    // What learning took, of all runs of a machine once.
    expect(page({ parity, runs: learnt, tuning: [] }).match(said)).toHaveLength(2);
  });

  it("keeps what was measured of other models apart", () => {
    const stamp = { date: "2026-01-01", machine: "m" };
    const model = "Other.Q8_0";
    const speed = (model: string, ours: number) => ({ ...stamp, model, decode: { 1: { ours } } });
    const text = page({
      speed: speed(mainModel, 100),
      others: { [model]: { speed: speed(model, 7) } },
      runs: [mainModel, model].flatMap((model) => [
        run({ model, steps: 0, seed: 0 }, 0.5),
        run({ model }, model === mainModel ? 1 : 0),
      ]),
      tuning: [],
    });
    const [main, other] = text.split(`\n## ${model}\n`) as [string, string];
    expect(main).toContain("| 1 | 100.0 |");
    expect(main).not.toContain("WORSE");
    expect(other).toContain("| 1 | 7.0 |");
    expect(other).toContain("WORSE");
    expect(other).toContain("\n### Speed\n");
  });
});

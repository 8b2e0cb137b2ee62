import { describe, expect, it } from "vitest";
import type { Turn } from "../../conversation/trajectory.ts";
import type { RewardInput } from "../reward-function.ts";
import { ExactMatchReward } from "./exact-match.ts";
import { numberIn } from "./number-in.ts";
import { NumericAnswerReward } from "./numeric-answer.ts";
import { PatternReward } from "./pattern.ts";
import { ToolCallReward } from "./tool-call.ts";

const said = (content: string, expected?: string): RewardInput => ({
  turns: [{ role: "assistant", content }],
  scenario: { id: "s", ...(expected !== undefined && { expected }) },
});

describe("ExactMatchReward", () => {
  it("forgives case, spaces and end punctuation, unless strict", async () => {
    const score = async (text: string, strict = false) =>
      (await new ExactMatchReward({ strict }).compute(said(text, "Paris"))).score;
    expect(await score("  paris. ")).toBe(1);
    expect(await score("paris.", true)).toBe(0);
    expect(await score("Paris", true)).toBe(1);
    expect(await score("Paris or London")).toBe(0);
    expect(await score("")).toBe(0);
  });

  it("fails without an answer to compare with", async () => {
    await expect(new ExactMatchReward().compute(said("x"))).rejects.toMatchObject({ code: "REWARD_FAILED" });
  });
});

describe("NumericAnswerReward", () => {
  it.each([
    ["It is 42.", 42],
    ["5 apples and 3 pears make 1,234.50 dollars", 1234.5],
    ["12 * 2 = 24\n#### 24", 24],
    ["so \\boxed{-7} as 3 < 5", -7],
    ["The answer is $18, because 2 + 16.", 18],
    ["exactly 3/4", 0.75],
    ["about −2", -2],
    [".5", 0.5],
    ["no number", undefined],
  ])("reads %j as %s", (text, expected) => expect(numberIn(text)).toBe(expected));

  it("is right only when the final answer is", async () => {
    const score = async (text: string, options = {}) =>
      (await new NumericAnswerReward(options).compute(said(text, "#### 8"))).score;
    expect(await score("It is 8.")).toBe(1);
    expect(await score("6 7 8 9 10")).toBe(0);
    expect(await score("8.05", { tolerance: 0.1 })).toBe(1);
    expect(await score("")).toBe(0);
    expect(await score("9", { expected: 9 })).toBe(1);
    await expect(new NumericAnswerReward().compute(said("1", "none"))).rejects.toMatchObject({ code: "REWARD_FAILED" });
  });
});

describe("PatternReward", () => {
  const turns: Turn[] = ["ticket 5", "ok"].map((content) => ({ role: "assistant", content }));
  it.each([
    ["last", 0],
    ["any", 1],
    ["all", 0.5],
  ] as const)("looks at %s replies", async (replies, score) => {
    const reward = new PatternReward({ pattern: /ticket \d+/g, replies });
    expect((await reward.compute({ turns })).score).toBe(score);
    expect((await reward.compute({ turns })).score).toBe(score);
    expect((await reward.compute({ turns: [] })).score).toBe(0);
  });

  it("needs a pattern", () => {
    expect(() => new PatternReward({ pattern: "x" as unknown as RegExp })).toThrow("regular expression");
  });
});

describe("ToolCallReward", () => {
  const parameters = {
    type: "object",
    properties: { city: { type: "string", minLength: 1 }, people: { type: "integer", minimum: 1 } },
    required: ["city"],
    additionalProperties: false,
  };
  const reward = new ToolCallReward({ tool: "FindRestaurants", parameters, arguments: { city: "Berkeley" } });
  const call = (name: string, args: string): Turn => ({
    role: "assistant",
    content: "",
    tool_calls: [{ id: "1", type: "function", function: { name, arguments: args } }],
  });

  it.each([
    ["the right call", [call("FindRestaurants", '{"city": "Berkeley", "people": 2}')], 1],
    ["a wrong value", [call("FindRestaurants", '{"city": "Oakland"}')], 0.5],
    ["a missing value", [call("FindRestaurants", "{}")], 0.5],
    ["an unknown value", [call("FindRestaurants", '{"city": "Berkeley", "x": 1}')], 0.5],
    ["arguments that are not JSON", [call("FindRestaurants", "{city}")], 0.25],
    ["another tool", [call("BookTable", '{"city": "Berkeley"}')], 0],
    ["no call", [{ role: "assistant", content: "FindRestaurants Berkeley" }], 0],
    ["a call among two", [call("BookTable", "{}"), call("FindRestaurants", '{"city": "Berkeley"}')], 0.5],
    [
      "a call in the text",
      [
        {
          role: "assistant",
          content: '<tool_call>\n{"name": "FindRestaurants", "arguments": {"city": "Berkeley"}}\n</tool_call>',
        },
      ],
      1,
    ],
    [
      "a broken call in the text",
      [{ role: "assistant", content: '<tool_call>{"name": "FindRestaurants", "arg' }],
      0.25,
    ],
  ] satisfies [string, Turn[], number][])("scores %s", async (_, turns, score) => {
    expect((await reward.compute({ turns })).score).toBe(score);
  });

  it("refuses what is no schema, by name", () => {
    const parameters = { type: "object", properties: { a: { type: "text" } } };
    expect(() => new ToolCallReward({ tool: "x", parameters })).toThrow("ToolCallReward.parameters is no JSON schema");
  });
});

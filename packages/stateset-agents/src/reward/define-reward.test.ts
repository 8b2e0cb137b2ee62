import { describe, expect, it } from "vitest";
import { rewardFunction } from "./define-reward.ts";

const conversation = { turns: [{ role: "assistant" as const, content: "Hello" }] };

describe("rewardFunction", () => {
  it("takes a function alone, whose name it has, or options and a function", async () => {
    const brief = () => 0.5;
    expect(await rewardFunction(brief).compute(conversation)).toEqual({ score: 0.5, breakdown: { brief: 0.5 } });
    const weighted = rewardFunction({ name: "short", weight: 2 }, brief);
    expect(weighted).toMatchObject({ name: "short", weight: 2 });
  });

  it("names what is missing or misspelt", () => {
    expect(() => rewardFunction({ name: "short" }, undefined as never)).toThrow(/no function/);
    expect(() => rewardFunction({ nmae: "short" } as never, () => 1)).toThrow(/Did you mean "name"/);
  });

  it.each([
    [Number.NaN, /gave NaN, not a finite number/],
    [{ score: Number.POSITIVE_INFINITY }, /gave Infinity, not/],
    [{ score: 1, breakdown: { style: Number.NaN } }, /gave NaN for its part "style"/],
    [{ score: 1, turns: { 3: Number.NaN } }, /gave NaN for turn 3/],
    ["1", /gave "1", not/],
    [{ score: 1, turns: { 1: 0.5 } }, /Reward "reward" rewards turn 1 of a conversation that has 1 turn\./],
    [{ score: 1, turns: { "-1": 0.5 } }, /"reward" rewards turn -1/],
    [{ score: 1, turns: { length: 0.5 } }, /"reward" rewards turn length/],
  ])("fails by name where a number is not finite, or is of a turn that is not there: %j", async (value, message) => {
    await expect(rewardFunction(() => value as number).compute(conversation)).rejects.toThrow(message);
  });
});

import { describe, expect, it } from "vitest";
import { acted } from "../test-support/acted.ts";
import { type ToolUseOptions, ToolUseReward } from "./tool-use-reward.ts";

const find = { call: "find_order", arguments: { id: "A1" } };
const refund = { call: "refund", arguments: { id: "A1" }, stateHash: "refunded" };
const user = "Please refund my order A1.";
const score = async (turns: ReturnType<typeof acted>, options: ToolUseOptions = {}) =>
  (await new ToolUseReward(options).compute({ turns })).score;

describe("ToolUseReward", () => {
  it("is 1 for calls that were needed and worked, with an answer after them", async () => {
    expect(await score(acted(user, find, refund, "It is refunded."))).toBe(1);
    expect(await score(acted(user, [find, refund], "It is refunded."), { needed: ["find_order", "refund"] })).toBe(1);
  });

  it.each<[string, ReturnType<typeof acted>, number, ToolUseOptions?]>([
    ["a tool that does not exist", acted(user, { call: "look", failure: "unknown_tool" }, find, "Found."), 0.75],
    ["broken JSON", acted(user, { call: "refund", arguments: "{", failure: "invalid_json" }, find, "Found."), 0.75],
    [
      "wrong arguments",
      acted(user, { ...find, failure: "invalid_arguments" }, { ...find, arguments: {} }, "So."),
      0.75,
    ],
    ["the same call again", acted(user, find, find, "Found."), 0.75],
    [
      "the same call with its keys in another order",
      acted(user, { call: "f", arguments: { a: 1, b: 2 } }, { call: "f", arguments: { b: 2, a: 1 } }, "So."),
      0.75,
    ],
    ["the same write again", acted(user, find, refund, refund, "Done."), 0.75],
    ["the same write twice in one reply", acted(user, find, [refund, refund], "Done."), 0.75],
    ["the same call four times more", acted(user, find, find, find, find, find, "Found."), 0],
    [
      "a call after it was refused",
      acted(user, find, { ...refund, failure: "denied" }, { call: "refund", arguments: { id: "A2" } }, "Hm."),
      0.75,
    ],
    ["a tool that is not needed", acted(user, find, { call: "weather" }, "Found."), 0.75, { needed: ["find_order"] }],
    ["a call where none is needed", acted(user, find, "No."), 0.75, { needed: [] }],
    ["one call too many", acted(user, find, refund, "Done."), 0.75, { maxCalls: 1 }],
    ["half of what is needed", acted(user, find, "Found."), 0, { needed: ["find_order", "refund"] }],
    ["a needed call that failed", acted(user, { ...refund, failure: "failed" }, "Sorry."), 0, { needed: ["refund"] }],
    ["no call", acted(user, "It is refunded."), 0],
    ["only calls that failed", acted(user, { ...find, failure: "timeout" }, "Sorry."), 0],
    ["a dearer fault", acted(user, find, find, "Found."), 0.5, { penalty: 0.5 }],
  ])("takes off for %s", async (_, turns, expected, options) => {
    expect(await score(turns, options)).toBeCloseTo(expected, 12);
  });

  it.each<[string, ReturnType<typeof acted>, ToolUseOptions?]>([
    ["the same call once the state has changed", acted(user, find, refund, find, "It is refunded.")],
    ["the same call after a timeout", acted(user, { ...find, failure: "timeout" }, find, "Found.")],
    ["a refusal that was taken for one", acted(user, find, { ...refund, failure: "denied" }, "I may not refund it.")],
    ["no call where none is needed", acted(user, "Which order?"), { needed: [] }],
    [
      "what the scenario began with",
      [
        {
          role: "assistant",
          content: "",
          given: true,
          tool_calls: [{ id: "1", type: "function", function: { name: "find_order", arguments: '{"id":"A1"}' } }],
        },
        ...acted(user, find, "Found."),
      ],
    ],
  ])("takes nothing off for %s", async (_, turns, options) => {
    expect(await score(turns, options)).toBe(1);
  });

  it("asks for an answer in words at the end, unless the environment ended it", async () => {
    expect(await score(acted(user, find, ""))).toBe(0);
    const reward = new ToolUseReward();
    const turns = acted(user, find, refund);
    expect((await reward.compute({ turns, ended: "done" })).score).toBe(1);
    expect((await reward.compute({ turns, ended: "max-turns" })).score).toBe(0);
    expect((await reward.compute({ turns: [] })).score).toBe(0);
  });

  it("says which turn lost what, as shares of the score", async () => {
    const turns = acted(user, find, find, { call: "look", failure: "unknown_tool" }, "Found.");
    const result = await new ToolUseReward({ needed: ["find_order"] }).compute({ turns });
    expect(result).toEqual({
      score: 0.5,
      breakdown: { toolUse: 0.5, calls: 3, faults: 2 },
      turns: { 3: -0.25, 5: -0.25 },
      turnsInScore: true,
      metadata: {
        reasons: [
          { turn: 3, why: 'the call of "find_order" is made again, and nothing had changed' },
          { turn: 5, why: 'the call of "look" is invalid' },
        ],
      },
    });
    // More faults than there is to lose: together they lose it all.
    const endless = await new ToolUseReward().compute({ turns: acted(user, find, ...Array(9).fill(find), "So.") });
    expect(endless.score).toBe(0);
    expect(Object.values(endless.turns!).reduce((a, b) => a + b)).toBeCloseTo(-1, 12);
  });

  it("takes what is needed from the conversation, by a function", async () => {
    const reward = new ToolUseReward({ needed: ({ scenario }) => scenario?.metadata?.tools as string[] | undefined });
    const turns = acted(user, find, "Found.");
    const of = async (tools?: string[]) =>
      (await reward.compute({ turns, scenario: { id: "a", ...(tools && { metadata: { tools } }) } })).score;
    expect([await of(["find_order"]), await of(["refund"]), await of([]), await of()]).toEqual([1, 0, 0.75, 1]);
  });

  it("refuses options it does not have", () => {
    expect(() => new ToolUseReward({ need: ["a"] } as object)).toThrow('Did you mean "needed"?');
    expect(() => new ToolUseReward({ penalty: 2 })).toThrow("penalty");
    expect(() => new ToolUseReward({ needed: "refund" as never })).toThrow("needed");
  });
});

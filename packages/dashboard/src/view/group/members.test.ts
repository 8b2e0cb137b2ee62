import { describe, expect, it } from "vitest";
import { columnsOf, type Member, meanReward, sorted, twoToCompare } from "./members.ts";

function member(change: Partial<Member>): Member {
  return {
    key: "k",
    id: "m",
    run: "r",
    step: 1,
    scenario: "s",
    group: "g",
    groupId: "g",
    reward: null,
    breakdown: {},
    ended: null,
    failure: null,
    leftOut: null,
    side: null,
    replies: 1,
    tokens: 10,
    hasTokens: true,
    snippet: "",
    advantage: null,
    learnTokens: 5,
    clippedShare: null,
    messages: [],
    ...change,
  };
}

describe("members of a group", () => {
  const members = [
    member({ reward: 0.2, ended: "done", breakdown: { brief: 1 } }),
    member({ leftOut: "lost" }),
    member({ reward: 0.9, ended: "max-tokens", breakdown: { polite: 0.5 } }),
    member({ reward: 0.2, ended: "done" }),
  ];

  it("are sorted by reward, the best first and what was lost last", () => {
    const columns = columnsOf(members);
    expect(sorted(members, columns, undefined)).toEqual([2, 0, 3, 1]);
    expect(sorted(members, columns, "-reward")).toEqual([0, 3, 2, 1]);
    expect(sorted(members, columns, "ended")).toEqual([0, 3, 2, 1]);
  });

  it("have the columns that they have numbers for, a part of the reward each", () => {
    expect(columnsOf(members).map(({ name }) => name)).toEqual([
      "reward",
      "part:brief",
      "part:polite",
      "tokens",
      "replies",
      "ended",
    ]);
  });

  it("are compared best with worst, or chosen with rejected", () => {
    expect(twoToCompare(members)).toEqual([2, 3]);
    expect(twoToCompare([member({ side: "rejected" }), member({ side: "chosen" })])).toEqual([1, 0]);
    expect(twoToCompare([member({ reward: 1 }), member({ reward: 1 })])).toEqual([0, 1]);
    expect(twoToCompare([member({}), member({})])).toEqual([0, 1]);
    expect(twoToCompare([member({})])).toBeUndefined();
  });

  it("have a mean of those that were rewarded", () => {
    expect(meanReward(members, [0, 1, 2])).toBeCloseTo(0.55);
    expect(meanReward(members, [1])).toBeNull();
  });
});

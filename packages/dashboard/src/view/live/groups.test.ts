import { describe, expect, it } from "vitest";
import type { LiveConversation } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { conversation } from "../../../test/support/live-conversation.ts";
import { chosen, groupsOf, newestFirst, statisticsOf } from "./groups.ts";

const seqs = (list: readonly LiveConversation[]) => list.map(({ seq }) => seq);

describe("running statistics", () => {
  it("counts those that wait, and says nothing of none", () => {
    expect(statisticsOf([conversation(0), conversation(1, { failure: "threw" })])).toEqual({
      count: 2,
      rewarded: 0,
      failed: 1,
      waiting: 1,
      mean: null,
      spread: null,
      min: null,
      max: null,
    });
  });

  it("gives mean, sample deviation and ends of those that were rewarded", () => {
    const rewards = [0.2, 0.4, 0.9].map((reward, i) => conversation(i, { reward }));
    const { mean, spread, min, max, rewarded, count } = statisticsOf([...rewards, conversation(3)]);
    expect(mean).toBeCloseTo(0.5, 12);
    expect(spread).toBeCloseTo(Math.sqrt(0.13), 12);
    expect([min, max, rewarded, count]).toEqual([0.2, 0.9, 3, 4]);
    expect(statisticsOf(rewards.slice(0, 1)).spread).toBeNull();
  });
});

describe("order and choice", () => {
  it("trusts what was written later more than the clock", () => {
    expect(
      seqs(newestFirst([conversation(0, { at: 9000 }), conversation(1, { at: 100 }), conversation(2, { at: 200 })])),
    ).toEqual([2, 1, 0]);
  });

  it("puts the group first whose conversation ended last, and keeps steps and runs apart", () => {
    const groups = groupsOf([
      conversation(0, { group: "a" }),
      conversation(1, { group: "b" }),
      conversation(2, { group: "a" }),
      conversation(3, { group: "a", step: 2 }),
      conversation(3, { group: "a", run: "other", at: 1 }),
    ]);
    expect(groups.map(({ run, step, group, count }) => `${run} ${step} ${group} ${count}`)).toEqual([
      "demo 2 a 1",
      "demo 1 a 2",
      "demo 1 b 1",
      "other 1 a 1",
    ]);
  });

  it("shows the step each run is in, also after a resume took it back", () => {
    const all = [
      conversation(0, { step: 5 }),
      conversation(1, { step: 3 }),
      conversation(0, { run: "other", step: 9 }),
    ];
    expect(chosen(all, { failedOnly: false, allSteps: false }).map(({ run, step }) => `${run} ${step}`)).toEqual([
      "demo 3",
      "other 9",
    ]);
  });

  it("filters by scenario and failure; a conversation without a scenario is the one of no name", () => {
    const all = [
      conversation(0, { failure: "threw" }),
      conversation(1, { scenario: "x" }),
      conversation(2, { scenario: null }),
    ];
    const of = (over: object) => seqs(chosen(all, { failedOnly: false, allSteps: true, ...over }));
    expect(of({ failedOnly: true })).toEqual([0]);
    expect(of({ scenario: "x" })).toEqual([1]);
    expect(of({ scenario: "" })).toEqual([2]);
    expect(of({ run: "elsewhere" })).toEqual([]);
  });
});

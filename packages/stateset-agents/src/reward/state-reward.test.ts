import { describe, expect, it } from "vitest";
import { StateReward } from "./state-reward.ts";

const turns = [{ role: "assistant" as const, content: "Done." }];
const over = (metadata: Record<string, unknown>) => ({ turns, scenario: { id: "refund" }, metadata });

describe("StateReward", () => {
  it("is what the task's own check found: 1 or 0, and of progress what `partial` counts it", async () => {
    const score = async (metadata: Record<string, unknown>, options = {}) =>
      (await new StateReward(options).compute(over(metadata))).score;
    expect(await score({ success: true, progress: 1 })).toBe(1);
    expect(await score({ success: false, progress: 0.5 })).toBe(0);
    expect(await score({ success: false, progress: 0.5 }, { partial: 0.4 })).toBe(0.2);
    expect(await score({ success: false }, { partial: 0.4 })).toBe(0);
    const { metadata } = await new StateReward().compute(over({ success: false, why: "it wrote nothing" }));
    expect(metadata).toEqual({ reasons: [{ why: "the task was not done (progress 0): it wrote nothing" }] });
    await expect(score({})).rejects.toThrow(/scenario "refund".*StateReward a `check`/);
  });

  it("asks a check of your own about the final state", async () => {
    interface Shop {
      orders: Record<string, string>;
    }
    const reward = new StateReward<Shop>({ check: ({ orders }) => orders.A1 === "refunded", name: "refunded" });
    const of = (orders: Record<string, string>) =>
      reward.compute(over({ success: false, state: { orders }, writes: [{}] }));
    expect(await of({ A1: "refunded" })).toEqual({
      score: 1,
      breakdown: { refunded: 1 },
      metadata: { reasons: [{ why: "the check of the final state gave true; the state was written 1 time" }] },
    });
    expect((await of({ A1: "paid" })).score).toBe(0);
    const half = new StateReward({ check: async () => 0.5 });
    expect((await half.compute(over({ state: {} }))).score).toBe(0.5);
    expect(reward.describe()).toMatchObject({ name: "refunded", kind: "StateReward", check: expect.any(String) });
  });

  it.each([
    ["no state", { check: () => true }, {}, /scenario "refund" has no state/],
    ["a number beyond 1", { check: () => 2 }, { state: {} }, /gave 2. Return true, false/],
    ["nothing", { check: () => undefined as never }, { state: {} }, /gave undefined/],
    ["NaN", { check: () => Number.NaN }, { state: {} }, /gave NaN/],
  ])("fails by name at %s, and never counts it as 0", async (_, options, metadata, what) => {
    await expect(new StateReward(options).compute(over(metadata))).rejects.toThrow(what);
  });

  it("refuses options that would be ignored, or are misspelt", () => {
    expect(() => new StateReward({ check: () => true, partial: 0.5 })).toThrow("both `check` and `partial`");
    expect(() => new StateReward({ chek: () => true } as object)).toThrow('Did you mean "check"?');
    expect(() => new StateReward({ partial: 2 })).toThrow("partial");
  });
});

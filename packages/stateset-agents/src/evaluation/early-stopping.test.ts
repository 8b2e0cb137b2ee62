import { describe, expect, it } from "vitest";
import { EarlyStopping } from "./early-stopping.ts";
import { bestStep, splitHeldOut } from "./split.ts";

describe("EarlyStopping", () => {
  it("stops after `patience` evaluations without improvement, and says why", () => {
    const stopping = new EarlyStopping({ patience: 2, minDelta: 0.01 });
    expect(stopping.observe(10, 0.5)).toEqual({ stop: false, improved: true });
    expect(stopping.observe(20, 0.505).improved).toBe(false);
    const decision = stopping.observe(30, 0.4);
    expect(decision.stop).toBe(true);
    expect(decision.reason).toBe("No improvement over the best score (0.5000 at step 10) in 2 evaluations.");
  });

  it("stops at the target", () => {
    expect(new EarlyStopping({ target: 0.9 }).observe(5, 0.95).stop).toBe(true);
  });

  it("goes on from its state as if never interrupted", () => {
    const scores = [0.1, 0.3, 0.2, 0.25, 0.1, 0.2];
    const whole = new EarlyStopping({ patience: 4 });
    const decisions = scores.map((score, i) => whole.observe(i, score));
    const first = new EarlyStopping({ patience: 4 });
    for (let i = 0; i < 3; i++) first.observe(i, scores[i]!);
    const second = new EarlyStopping({ patience: 4 });
    second.restore(JSON.parse(JSON.stringify(first.state())));
    expect(scores.slice(3).map((score, i) => second.observe(i + 3, score))).toEqual(decisions.slice(3));
  });

  it("does not take NaN for an improvement", () => {
    const stopping = new EarlyStopping({ patience: 1 });
    expect(stopping.observe(1, Number.NaN)).toMatchObject({ stop: true, improved: false });
  });

  it("names a misspelt option", () => {
    expect(() => new EarlyStopping({ patients: 3 } as object)).toThrow('Did you mean "patience"?');
  });
});

describe("splitHeldOut", () => {
  it("keeps selection and report apart, and is the same for the same seed", () => {
    const scenarios = Array.from({ length: 9 }, (_, i) => i);
    const { selection, report } = splitHeldOut(scenarios, { seed: 4 });
    expect([...selection, ...report].sort()).toEqual(scenarios);
    expect(selection.filter((s) => report.includes(s))).toEqual([]);
    expect(splitHeldOut(scenarios, { seed: 4 })).toEqual({ selection, report });
  });

  it("leaves at least one scenario on each side", () => {
    const { selection, report } = splitHeldOut([1, 2], { selectionShare: 0.99 });
    expect([selection.length, report.length]).toEqual([1, 1]);
    expect(() => splitHeldOut([1])).toThrow("at least 2");
  });

  it("picks the earliest of the best steps", () => {
    const scores = [
      { step: 1, score: 0.2 },
      { step: 2, score: 0.7 },
      { step: 3, score: 0.7 },
      { step: 4, score: Number.NaN },
    ];
    expect(bestStep(scores)).toBe(2);
    expect(bestStep([])).toBeUndefined();
  });
});

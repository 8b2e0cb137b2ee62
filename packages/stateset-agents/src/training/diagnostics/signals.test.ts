import { describe, expect, it } from "vitest";
import { fakeGroup } from "../../test-support/fake-group.ts";
import { readSignals } from "./signals.ts";
import { repeatedShare, repeatedWordShare, sharedTextShare } from "./text.ts";

describe("readSignals", () => {
  it("reduces a step to its numbers", () => {
    const signals = readSignals({
      step: 3,
      metrics: { kl: 0.1, approxKl: 0.02 },
      vocabulary: 8192,
      groups: [
        fakeGroup("a", [
          { reward: 0, parts: { polite: 0, short: 1 }, tokens: 10, surprise: 2 },
          { reward: 1, parts: { polite: 1, short: 0 }, tokens: 30, surprise: 2, cut: true },
        ]),
        fakeGroup("b", [
          { reward: 0.5, parts: { polite: 1, short: 0 }, tokens: 20, surprise: 2 },
          { reward: 0.5, parts: { polite: 1, short: 0 }, tokens: 20, surprise: 2, text: "…" },
        ]),
      ],
    });
    expect(signals).toMatchObject({
      step: 3,
      reward: { mean: 0.5 },
      rewardSpread: Math.sqrt(0.5 / 3),
      entropy: 2,
      kl: 0.1,
      approxKl: 0.02,
      explainedVariance: null,
      replyTokens: 20,
      cutShare: 0.25,
      emptyShare: 0.25,
      parts: { polite: { mean: 0.75 }, short: { mean: 0.25 } },
      scenarios: [
        { id: "a", rewards: [0, 1] },
        { id: "b", rewards: [0.5, 0.5] },
      ],
    });
    expect(signals.entropyShare).toBeCloseTo(2 / Math.log(8192));
  });

  it("takes the metric of the entropy, and estimates it from the log-probs where there is none", () => {
    const groups = [fakeGroup("a", [{ reward: 1, surprise: 1.5 }])];
    expect(readSignals({ step: 1, metrics: { entropy: 0.3 }, groups }).entropy).toBe(0.3);
    expect(readSignals({ step: 1, metrics: {}, groups }).entropy).toBe(1.5);
  });

  it("counts the copies of other scenarios, not those inside a group", () => {
    const share = (...texts: string[][]) => {
      const groups = texts.map((own, i) =>
        fakeGroup(
          `s${i}`,
          own.map((text) => ({ reward: 0, text })),
        ),
      );
      return readSignals({ step: 1, metrics: {}, groups }).sharedReplyShare;
    };
    expect(share(["yes", "yes"], ["no", "no"])).toBe(0);
    expect(share(["yes", "Yes"], ["yes", "no"])).toBe(0.75);
    expect(share(["yes", "yes"])).toBeNull();
    const same = [
      fakeGroup("a", [{ reward: 0, text: "yes" }]),
      { ...fakeGroup("a", [{ reward: 0, text: "yes" }]), scenarioId: "b" },
    ];
    expect(readSignals({ step: 1, metrics: {}, groups: same }).sharedReplyShare).toBeNull();
  });
});

describe("text measures", () => {
  it("see loops, chants and rows of marks", () => {
    expect(repeatedShare("thank you so much thank you so much thank you so much")).toBeGreaterThan(0.5);
    expect(repeatedShare("I have found your order and it will arrive on Tuesday before noon")).toBe(0);
    expect(repeatedShare("please please please please")).toBeGreaterThan(0);
    expect(repeatedShare("Sure!!!!!!!!!!!!!!")).toBeGreaterThan(0.5);
    expect(repeatedWordShare("please thank sorry thank please sorry")).toBe(0.5);
    expect(repeatedWordShare("yes yes")).toBe(0);
    // The marks of a tool call are its form, not its words.
    const call = '{"name": "find_book", "arguments": {"title": "Emma", "author": "Austen", "year": "1815"}}';
    expect([repeatedShare(call), repeatedWordShare(call)]).toEqual([0, 0]);
  });

  it("find texts that several lists have", () => {
    expect(sharedTextShare([["Hello!"], ["hello!", "Bye"]])).toBeCloseTo(2 / 3);
    expect(sharedTextShare([["a", "a"]])).toBeNull();
  });
});

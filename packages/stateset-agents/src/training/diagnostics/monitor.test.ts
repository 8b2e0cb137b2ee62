import { describe, expect, it } from "vitest";
import { type FakeConversation, fakeGroup } from "../../test-support/fake-group.ts";
import { DiagnosticsMonitor } from "./monitor.ts";
import { correlation, readSignals } from "./signals.ts";
import { repeatedShare, sameTextShare } from "./text.ts";

const healthy = (step: number) =>
  fakeGroup(
    `s${step % 3}`,
    [0.2, 0.4, 0.6, 0.5].map((reward) => ({ reward })),
  );

function run(
  monitor: DiagnosticsMonitor,
  steps: number,
  of: (step: number) => FakeConversation[],
  metrics: Record<string, number> = {},
) {
  const said: { step: number; kind: string; message: string }[] = [];
  for (let step = 1; step <= steps; step++) {
    for (const verdict of monitor.observe({
      step,
      metrics: { gradNorm: 0.5, ...metrics },
      groups: [fakeGroup("a", of(step))],
    }))
      said.push(verdict);
  }
  return said;
}

describe("readSignals", () => {
  it("reduces a step to its numbers", () => {
    const signals = readSignals({
      step: 3,
      metrics: { kl: 0.1, gradNorm: 2 },
      groups: [
        fakeGroup("a", [
          { reward: 0, parts: { polite: 0, short: 1 }, tokens: 10, surprise: 2 },
          { reward: 1, parts: { polite: 1, short: 0 }, tokens: 30, surprise: 2 },
        ]),
        fakeGroup("b", [
          { reward: 0.5, parts: { polite: 1, short: 0 }, tokens: 20, surprise: 2 },
          { reward: 0.5, parts: { polite: 1, short: 0 }, tokens: 20, surprise: 2 },
        ]),
      ],
    });
    expect(signals).toMatchObject({
      step: 3,
      conversations: 4,
      rewardMean: 0.5,
      zeroVarianceShare: 0.5,
      entropy: 2,
      kl: 0.1,
      approxKl: null,
      gradNorm: 2,
      replyTokens: 20,
      parts: { polite: 0.75, short: 0.25 },
    });
    expect(signals.lengthCorrelation).toBeCloseTo(1);
    expect(signals.partCorrelations["polite~short"]).toBeCloseTo(-1);
  });

  it("takes the engine's exact entropy over its own estimate", () => {
    expect(readSignals({ step: 1, metrics: { entropy: 0.3 }, groups: [healthy(1)] }).entropy).toBe(0.3);
  });

  it("finds no correlation with a constant", () => {
    expect(correlation([1, 1, 1], [1, 2, 3])).toBeNull();
  });
});

describe("text measures", () => {
  it("see loops inside a reply and copies between replies", () => {
    expect(repeatedShare("thank you so much thank you so much thank you so much")).toBeGreaterThan(0.5);
    expect(repeatedShare("I have found your order and it will arrive on Tuesday before noon")).toBe(0);
    expect(repeatedShare("please please please please")).toBeGreaterThan(0);
    expect(sameTextShare(["Hello!", "hello", "Bye"])).toBeCloseTo(2 / 3);
  });
});

describe("DiagnosticsMonitor", () => {
  it("says nothing about a healthy run that improves", () => {
    const said = run(new DiagnosticsMonitor(), 30, (step) =>
      [0.2, 0.4, 0.6, 0.5].map((r) => ({ reward: r + step * 0.01 })),
    );
    expect(said).toEqual([]);
  });

  it("names a collapse from the second step it shows", () => {
    const said = run(new DiagnosticsMonitor(), 8, (step) =>
      [0.2, 0.4, 0.6, 0.5].map((reward) => ({
        reward,
        surprise: step < 4 ? 1.6 : 0.1,
        ...(step < 4 ? {} : { text: "ok" }),
      })),
    );
    const collapse = said.find((verdict) => verdict.kind === "collapse");
    expect(collapse?.step).toBe(5);
    expect(collapse?.message).toBe(
      "The policy is collapsing: entropy fell from 1.60 to 0.10 nats per token and 100% of replies repeat another of their group word for word.",
    );
    expect(said.filter((verdict) => verdict.kind === "collapse")).toHaveLength(1);
  });

  it("names a divergence when text turns to noise and the reward falls", () => {
    const said = run(new DiagnosticsMonitor(), 8, (step) =>
      [0.7, 0.8, 0.75, 0.72].map((reward) => ({
        reward: step < 4 ? reward : reward - 0.6,
        surprise: step < 4 ? 1 : 6,
      })),
    );
    expect(said.find((verdict) => verdict.kind === "divergence")).toMatchObject({
      step: 5,
      severity: "critical",
      message:
        "The run is diverging: entropy rose from 1.00 to 6.00 nats per token, the reward fell from 0.74 to 0.14.",
    });
  });

  it("suspects reward hacking when the reward rises on repeated text", () => {
    const loop = "thank you please ".repeat(12);
    const said = run(new DiagnosticsMonitor(), 10, (step) =>
      [0.2, 0.4, 0.3, 0.25].map((reward) => (step < 5 ? { reward } : { reward: reward + 0.6, text: loop, tokens: 60 })),
    );
    const verdict = said.find(({ kind }) => kind === "reward-hacking");
    expect(verdict?.step).toBe(6);
    expect(verdict?.message).toMatch(/reward rose from 0.29 to 0.89, but \d+% of the text repeats itself/);
  });

  it("suspects reward hacking when one part pays for another", () => {
    const said = run(new DiagnosticsMonitor(), 8, (step) =>
      [0.2, 0.4, 0.3, 0.25].map((reward) => ({
        reward: step < 4 ? reward : reward + 0.5,
        parts: { helpful: step < 4 ? 0.5 : 0.1 },
      })),
    );
    expect(said.find(({ kind }) => kind === "reward-hacking")?.message).toContain(
      'the part "helpful" fell from 0.50 to 0.10',
    );
  });

  it("tells too easy from too hard by the range the run has seen", () => {
    const monitor = new DiagnosticsMonitor();
    const kinds: string[] = [];
    for (let step = 1; step <= 4; step++) {
      const groups = [
        fakeGroup("easy", Array(4).fill({ reward: 1 })),
        fakeGroup("hard", Array(4).fill({ reward: 0 })),
        fakeGroup(
          "fine",
          [0.3, 0.6, 0.5, 0.2].map((reward) => ({ reward })),
        ),
      ];
      for (const verdict of monitor.observe({ step, metrics: {}, groups }))
        kinds.push(`${verdict.kind}:${verdict.scenarioId}@${step}`);
    }
    expect(kinds).toEqual(["too-easy:easy@3", "too-hard:hard@3"]);
  });

  it("warns when groups have nothing to compare", () => {
    const said = run(new DiagnosticsMonitor(), 3, () => Array(4).fill({ reward: 0.5 }));
    expect(said.map(({ kind }) => kind)).toContain("no-signal");
  });

  it("says a verdict again only after it cleared", () => {
    const dip = (step: number) => (step % 10 >= 5 ? 0.05 : 1.6);
    const said = run(new DiagnosticsMonitor(), 29, (step) =>
      [0.2, 0.4, 0.6, 0.5].map((reward) => ({ reward, surprise: dip(step) })),
    );
    expect(said.filter(({ kind }) => kind === "collapse").map(({ step }) => step)).toEqual([6, 16, 26]);
  });

  it("goes on from its state as if never interrupted", () => {
    const of = (step: number) => [0.2, 0.4, 0.6, 0.5].map((reward) => ({ reward, surprise: step < 6 ? 1.6 : 0.1 }));
    const whole = new DiagnosticsMonitor();
    run(whole, 12, of);
    const first = new DiagnosticsMonitor();
    run(first, 6, of);
    const second = new DiagnosticsMonitor();
    second.restore(JSON.parse(JSON.stringify(first.state())));
    for (let step = 7; step <= 12; step++)
      second.observe({ step, metrics: { gradNorm: 0.5 }, groups: [fakeGroup("a", of(step))] });
    expect(second.state()).toEqual(whole.state());
  });
});

import { describe, expect, it } from "vitest";
import { type FakeConversation, fakeGroup } from "../../test-support/fake-group.ts";
import { DiagnosticsMonitor } from "./monitor.ts";

interface Step {
  groups: Record<string, FakeConversation[]>;
  metrics?: Record<string, number>;
  vocabulary?: number;
}

/** Shows the steps and returns what is said, as "step kind". */
function said(monitor: DiagnosticsMonitor, steps: number, of: (step: number) => Step, from = 1): string[] {
  const lines: string[] = [];
  for (let step = from; step <= steps; step++) {
    const { groups: shown, metrics = {}, vocabulary } = of(step);
    const groups = Object.entries(shown).map(([id, conversations]) => fakeGroup(id, conversations));
    for (const { kind } of monitor.observe({ step, metrics, groups, vocabulary })) lines.push(`${step} ${kind}`);
  }
  return lines;
}

const message = (monitor: DiagnosticsMonitor, kind: string) =>
  monitor.verdicts.find((verdict) => verdict.kind === kind)?.message;

/** Three scenarios whose conversations differ by ±0.1 about `level`. */
function three(
  level: number,
  more: (scenario: number, index: number) => Partial<FakeConversation> = () => ({}),
): Step["groups"] {
  const spread = [-0.1, 0.05, 0.1, -0.05];
  return Object.fromEntries(
    ["a", "b", "c"].map((id, s) => [id, spread.map((d, i) => ({ reward: level + d, ...more(s, i) }))]),
  );
}

const early = (step: number) => step < 4;
const loop = "thank you please ".repeat(12);

describe("a healthy run", () => {
  it("that improves is told nothing", () => {
    expect(said(new DiagnosticsMonitor(), 30, (step) => ({ groups: three(0.3 + 0.01 * step) }))).toEqual([]);
  });

  it("that ends in one right answer a scenario, the same words in every conversation of its group, is told nothing", () => {
    const monitor = new DiagnosticsMonitor();
    const lines = said(monitor, 30, (step) => {
      const done = step > 10;
      const answer = (s: number) => (done ? { text: `answer ${s}`, surprise: 0.01, tokens: 3 } : {});
      return { groups: three(done ? 0.9 : 0.3 + 0.06 * step, answer) };
    });
    expect(lines).toEqual([]);
  });

  it("that ends in one right answer for all of them is told nothing, as long as the reward is at its best", () => {
    const lines = said(new DiagnosticsMonitor(), 30, (step) => ({
      groups: three(Math.min(0.9, 0.3 + 0.06 * step), () => (step > 10 ? { text: "Hello!", surprise: 0.01 } : {})),
    }));
    expect(lines).toEqual([]);
  });

  it("that grows certain while its groups still differ is told nothing", () => {
    const lines = said(new DiagnosticsMonitor(), 20, (step) => ({
      groups: three(0.5, (s, i) => (early(step) ? {} : { text: `call ${s} ${i}`, surprise: 0.02 })),
    }));
    expect(lines).toEqual([]);
  });

  it("that misses a scenario once on its way is told nothing", () => {
    const lines = said(new DiagnosticsMonitor(), 9, (step) => ({
      groups: { ...three(0.5), found: Array(8).fill({ reward: step === 5 ? 0.4 : 0.6 }) },
    }));
    expect(lines.filter((line) => line.includes("lost"))).toEqual([]);
  });

  it("that has solved its scenarios is told so in one note, not that it has no signal", () => {
    const monitor = new DiagnosticsMonitor();
    const lines = said(monitor, 40, (step) => ({
      groups: Object.fromEntries(
        Array.from({ length: 12 }, (_, i) => [`s${i}`, [0, 1, 1, 1].map((r) => ({ reward: step < 3 ? r : 1 }))]),
      ),
    }));
    expect(lines).toEqual(["5 too-easy"]);
    expect(message(monitor, "too-easy")).toBe("12 of 12 scenarios always get the best reward: s0, s1, s2, s3, s4, ….");
    expect(monitor.verdicts[0]!.scenarioIds).toHaveLength(12);
  });

  it("that learns to be brief is not told of a drift in length", () => {
    const lines = said(new DiagnosticsMonitor(), 20, (step) => ({
      groups: three(Math.min(0.9, 0.3 + 0.05 * step), () => ({ tokens: Math.max(4, 24 - 2 * step) })),
    }));
    expect(lines).toEqual([]);
  });

  it("with a step without groups is told nothing of it", () => {
    const monitor = new DiagnosticsMonitor();
    const some = (step: number) => step < 3 || step > 5;
    expect(said(monitor, 8, (step) => ({ groups: some(step) ? three(0.5) : {} }))).toEqual([]);
    expect(monitor.latest?.step).toBe(8);
    const first = new DiagnosticsMonitor();
    expect(said(first, 5, (step) => ({ groups: step < 3 ? {} : three(0.5) }))).toEqual([]);
    expect(first.state().start?.step).toBe(3);
  });
});

describe("the monitor", () => {
  it("names a collapse when all scenarios get the same reply and the reward is no better for it", () => {
    const monitor = new DiagnosticsMonitor();
    const lines = said(monitor, 12, (step) => ({
      groups: three(0.5, () => (early(step) ? {} : { text: "ok", surprise: 0.02, reward: 0.5 })),
    }));
    expect(lines).toContain("6 collapse");
    expect(message(monitor, "collapse")).toBe(
      "The policy is collapsing: entropy fell from 1.00 to 0.02 nats per token and 100% of replies are given to other scenarios as well, word for word, and the reward is not the better for it.",
    );
  });

  it("names it too when the reward had been better before", () => {
    const lines = said(new DiagnosticsMonitor(), 20, (step) => ({
      groups: three(step < 12 ? 0.3 + 0.05 * step : 0.45, () => (step < 12 ? {} : { text: "ok" })),
    }));
    expect(lines.filter((line) => line.includes("collapse"))).toHaveLength(1);
  });

  it("names text that is nearly random by the size of the vocabulary, at the first step", () => {
    const monitor = new DiagnosticsMonitor();
    const noisy = (surprise: number) => () => ({ groups: three(0.5, () => ({ surprise })), vocabulary: 8192 });
    expect(said(monitor, 3, noisy(8.2))).toEqual(["1 noise"]);
    expect(message(monitor, "noise")).toBe("Replies are nearly random text: 8.20 nats per token of at most 9.01.");
    expect(said(new DiagnosticsMonitor(), 3, noisy(3))).toEqual([]);
  });

  it("names a divergence at the first huge update, with one update a rollout", () => {
    const monitor = new DiagnosticsMonitor();
    expect(said(monitor, 3, () => ({ groups: three(0.5), metrics: { approxKl: 7.8 } }))).toEqual(["1 divergence"]);
    expect(message(monitor, "divergence")).toBe(
      "The run is diverging: one step moved the policy by a KL of 7.80 per token.",
    );
    expect(said(new DiagnosticsMonitor(), 9, () => ({ groups: three(0.5), metrics: { approxKl: 0.1 } }))).toEqual([]);
  });

  it("names a divergence when the reward falls below where it began, or updates are skipped", () => {
    const fall = new DiagnosticsMonitor();
    expect(said(fall, 10, (step) => ({ groups: three(early(step) ? 0.8 : 0.2) }))).toContain("5 divergence");
    const skipped = new DiagnosticsMonitor();
    const lines = said(skipped, 6, (step) => ({ groups: three(0.5), metrics: { notFinite: Math.max(0, step - 3) } }));
    expect(lines).toEqual(["5 divergence"]);
    expect(message(skipped, "divergence")).toContain("not finite");
  });

  it("names a critic that is worse than a constant, after a warm-up, and not one that is about one", () => {
    const monitor = new DiagnosticsMonitor();
    const worse = () => ({ groups: three(0.5), metrics: { explainedVariance: -3 } });
    expect(said(monitor, 20, worse)).toEqual(["9 critic"]);
    expect(message(monitor, "critic")).toMatch(/worse than a constant: its explained variance was -3.00/);
    const fine = (step: number) => ({ groups: three(0.5), metrics: { explainedVariance: step % 2 ? -0.2 : -0.15 } });
    expect(said(new DiagnosticsMonitor(), 20, fine)).toEqual([]);
  });

  it("suspects reward hacking at the first step in which a risen reward comes with text that repeats itself", () => {
    const monitor = new DiagnosticsMonitor();
    const lines = said(monitor, 10, (step) => ({
      groups: early(step) ? three(0.3) : three(0.9, () => ({ text: loop })),
    }));
    expect(lines).toEqual(["4 reward-hacking"]);
    expect(message(monitor, "reward-hacking")).toMatch(
      /reward rose from 0.30 to 0.90, but \d+% of the text repeats itself/,
    );
  });

  it("sees a chant that never repeats a sequence", () => {
    const chant = "please thank sorry glad thank please glad sorry please glad thank sorry";
    const lines = said(new DiagnosticsMonitor(), 8, (step) => ({
      groups: early(step) ? three(0.3) : three(0.9, () => ({ text: chant })),
    }));
    expect(lines).toEqual(["4 reward-hacking"]);
  });

  it("suspects reward hacking when replies run into the token limit, or have no words, or one part pays for another", () => {
    const hacked = (more: (step: number) => Partial<FakeConversation>) => {
      const monitor = new DiagnosticsMonitor();
      said(monitor, 8, (step) => ({ groups: three(early(step) ? 0.3 : 0.8, () => more(step)) }));
      return message(monitor, "reward-hacking");
    };
    expect(hacked((step) => (early(step) ? {} : { tokens: 32, cut: true }))).toContain(
      "100% of conversations run into the token limit (at the start 0%)",
    );
    expect(hacked((step) => (early(step) ? {} : { text: "." }))).toContain("100% of replies have no word");
    expect(hacked((step) => ({ parts: { helpful: early(step) ? 0.5 : 0.1, brief: 0.5 } }))).toContain(
      'the part "helpful" fell from 0.50 to 0.10',
    );
    expect(hacked((step) => ({ parts: { helpful: early(step) ? 0.5 : 0.4 } }))).toBeUndefined();
  });

  it("suspects reward hacking when the reward falls on held-out scenarios while it rises on the trained ones", () => {
    const after = (held: number) => {
      const monitor = new DiagnosticsMonitor();
      const evaluated = (mean: number) =>
        monitor.observeEvaluation({ set: "selection", reward: { mean, count: 8, low: mean - 0.1, high: mean + 0.1 } });
      evaluated(0.5);
      said(monitor, 3, () => ({ groups: three(0.3) }));
      evaluated(held);
      said(monitor, 6, () => ({ groups: three(0.9) }), 4);
      return message(monitor, "reward-hacking");
    };
    expect(after(0.2)).toContain("the held-out reward fell from 0.50 to 0.20");
    expect(after(0.45)).toBeUndefined();
  });

  it("names repeated text also where the reward did not rise", () => {
    const lines = said(new DiagnosticsMonitor(), 8, (step) => ({
      groups: three(0.5, (s) => (early(step) ? {} : { text: `${s} ${loop}` })),
    }));
    expect(lines).toEqual(["5 repetition"]);
  });

  it("names the scenarios that used to succeed and now always fail", () => {
    const monitor = new DiagnosticsMonitor();
    const mixed = [1, 0, 1, 0].map((reward) => ({ reward }));
    const failed = Array.from({ length: 4 }, () => ({ reward: 0 }));
    const lines = said(monitor, 12, (step) => ({
      groups: { fine: mixed, ...(step < 5 ? { lost: mixed } : { lost: failed }), never: failed },
    }));
    expect(lines).toContain("7 lost-scenarios");
    expect(message(monitor, "lost-scenarios")).toBe("1 of 3 scenarios that used to succeed now always fail: lost.");
    expect(monitor.scenarios("lost-scenarios").map(({ id }) => id)).toEqual(["lost"]);
    expect(monitor.scenarios("too-hard").map(({ id }) => id)).toEqual(["never"]);
  });

  it("does not call scenarios lost when the whole run falls back", () => {
    const lines = said(new DiagnosticsMonitor(), 14, (step) => ({
      groups: three(step < 4 ? 0.2 : step < 9 ? 0.9 : 0.1),
    }));
    expect(lines.filter((line) => line.includes("lost"))).toEqual([]);
  });

  it("does not call a scenario lost that succeeds rarely and rests for a while", () => {
    const lines = said(new DiagnosticsMonitor(), 12, (step) => ({
      groups: {
        fine: [1, 0, 1, 0].map((reward) => ({ reward })),
        rare: [step % 4 === 1 ? 1 : 0, 0, 0, 0].map((reward) => ({ reward })),
      },
    }));
    expect(lines.filter((line) => line.includes("lost"))).toEqual([]);
  });

  it("warns when groups have nothing to compare", () => {
    const flat = () => ({ groups: { a: Array(4).fill({ reward: 0.5 }), b: Array(4).fill({ reward: 0.5 }) } });
    expect(said(new DiagnosticsMonitor(), 5, flat)).toEqual(["2 no-signal"]);
  });

  it("notes a drift in length that the reward does not explain", () => {
    const lines = said(new DiagnosticsMonitor(), 9, (step) => ({
      groups: three(0.5, () => ({ tokens: early(step) ? 20 : 60 })),
    }));
    expect(lines).toEqual(["5 length-drift"]);
  });

  it("says a verdict once, and again only after it was gone for long", () => {
    const ill = (from: number) => (step: number) => step % from >= from - 5;
    const count = (sick: (step: number) => boolean, steps: number) =>
      said(new DiagnosticsMonitor(), steps, (step) => ({
        groups: three(0.5, () => (sick(step) ? { text: loop } : {})),
      })).filter((line) => line.includes("repetition")).length;
    expect(count(ill(10), 60)).toBe(1);
    expect(count(ill(40), 79)).toBe(2);
  });

  it("goes on from its state as if never interrupted", () => {
    const of = (step: number): Step => ({
      groups: three(0.5, () => (step < 6 ? {} : { text: "ok", surprise: 0.02 })),
      metrics: { approxKl: 0.01 * step },
    });
    const whole = new DiagnosticsMonitor();
    said(whole, 12, of);
    const first = new DiagnosticsMonitor();
    said(first, 6, of);
    const second = new DiagnosticsMonitor();
    second.restore(JSON.parse(JSON.stringify(first.state())));
    said(second, 12, of, 7);
    expect(second.state()).toEqual(whole.state());
  });

  it("measures scenarios by what rewards are, not by what a failure counts", () => {
    const monitor = new DiagnosticsMonitor();
    const failing = fakeGroup("broken", [{ reward: -10 }, { reward: -10 }]);
    for (const trajectory of failing.trajectories) trajectory.ended = "failed";
    for (let step = 1; step <= 8; step++) {
      const hard = fakeGroup("hard", [{ reward: 0 }, { reward: 0 }]);
      const varied = fakeGroup("varied", [{ reward: 0 }, { reward: 1 }]);
      monitor.observe({ step, metrics: {}, groups: [hard, varied, failing] });
    }
    expect(monitor.scenarios("too-easy")).toEqual([]);
    expect(monitor.scenarios("too-hard").map(({ id }) => id)).toEqual(["hard", "broken"]);
  });
});

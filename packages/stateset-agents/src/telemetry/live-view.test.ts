import { describe, expect, it, vi } from "vitest";
import { createAlgorithm } from "../algorithm/algorithms.ts";
import { emptyReport } from "../rollout/report.ts";
import type { RunStart, StepEnd } from "../run/callbacks.ts";
import { differences } from "../run/differences.ts";
import { fakeGroup } from "../test-support/fake-group.ts";
import { FakeTerminal } from "../test-support/fake-terminal.ts";
import { tableLearner } from "../test-support/table-learners.ts";
import { resolveConfig } from "../training/config.ts";
import { defaultsOf } from "../training/defaults.ts";
import { bytes, clip, duration, sparkline, table, width } from "./format.ts";
import { createLiveView, type LiveViewOptions } from "./live-view.ts";
import { changedSettings } from "./view-texts.ts";

const config = resolveConfig({ steps: 4, groupSize: 6, kl: { coefficient: 0.02 }, seed: 7 });
const run: RunStart = {
  id: "polite-1",
  dir: "runs/polite-1",
  learner: "grpo",
  steps: 4,
  settings: { ...config, ...createAlgorithm({ algorithm: "grpo", epsilonHigh: 0.3 }).options, algorithm: "grpo" },
  defaults: defaultsOf("grpo"),
  saved: {} as RunStart["saved"],
  resumedAfter: undefined,
};

const [made] = fakeGroup("lost", [{ reward: 0 }]).trajectories;
const where = { scenarioId: "lost", trajectoryId: "lost-0" };
const lostTrajectory = {
  ...made!,
  group: "lost",
  failure: { kind: "threw" as const, during: "step" as const, ...where, message: "no" },
};

const reportOf = (lost: number) => ({
  ...emptyReport(),
  requested: 24,
  lost: Array.from({ length: lost }, () => lostTrajectory),
});

function stepEnd(step: number, reward: number): StepEnd {
  return {
    step,
    totalSteps: 4,
    metrics: { step, reward, rewardStd: 0.2, kl: 0.0125, entropy: 1.5, clipFraction: 0.034, gradNorm: 0.9 },
    timing: { step, rolloutMs: 700, updateMs: 300, tokensPerSecond: 1234, reused: 0.97 },
    stop: () => {},
    tell: async () => {},
  };
}

/** What the writes of a view leave on a terminal. */
function screen(writes: readonly string[], columns = 100): string[] {
  const terminal = new FakeTerminal(columns);
  for (const text of writes) terminal.write(text);
  return terminal.lines();
}

function play(options: Partial<LiveViewOptions>, columns = 100): string[] {
  const writes: string[] = [];
  let clock = 0;
  const view = createLiveView({
    stream: { write: (text) => writes.push(text), columns },
    color: false,
    now: () => clock,
    ...options,
  });
  view.onStart!(run);
  for (const [i, reward] of [0.2, 0.3, 0.5].entries()) {
    clock += 10_000;
    view.onRollouts!({ step: i + 1, groups: [], report: reportOf(i) });
    view.onStepEnd!(stepEnd(i + 1, reward));
  }
  view.onEvaluation!({
    step: 3,
    set: "selection",
    reward: { mean: 0.45, low: 0.4, high: 0.5, count: 9 },
    parts: {},
    scenarios: [],
    failed: 0,
    lost: 0,
    failures: [],
    stop: () => {},
  });
  view.onEvaluation!({
    step: 3,
    set: "report",
    weightsOf: 2,
    reward: { mean: 0.3, count: 2 },
    parts: {},
    scenarios: [],
    failed: 0,
    lost: 0,
    failures: [],
    stop: () => {},
  });
  view.onWarning!({ step: 3, kind: "environment-failed", message: "It threw." });
  view.onAdjustment!({ step: 3, setting: "klCoefficient", from: 0, to: 0.05, reason: "Because." });
  view.onVerdict!({
    kind: "no-signal",
    severity: "warning",
    step: 3,
    message: "Nothing to learn.",
    advice: "Change it.",
  });
  view.onEnd!({ status: "finished", steps: 3, weights: { step: 2, scenarios: 9, why: "step 2's, which did best" } });
  return writes;
}

describe("createLiveView", () => {
  it("redraws in place on a terminal, with notes above", () => {
    const lines = screen(play({ mode: "tty", title: "starter-v1" }));
    const text = lines.join("\n");
    expect(lines.filter((line) => line.startsWith("polite-1"))).toHaveLength(1);
    expect(text).toContain("polite-1  starter-v1 · grpo · balanced · seed 7");
    expect(text).toMatch(/set {2}epsilonHigh 0.3 · groupSize 6 · kl.coefficient 0.02 · steps 4 · learningRate/);
    expect(text).toMatch(/step +3\/4 {2}━+─+ {2}75% {3}eta 10s/);
    expect(text).toMatch(/reward +0.500 ± 0.200 {2}▁▃█\n/);
    expect(text).toContain("kl 0.013   entropy 1.500   clip 3.4%   grad 0.900");
    expect(text).toContain("1.2k tokens/s   rollout 70%   update 30%   reused 97%");
    expect(text).toContain("3 of 72 (environment 3, reward 0) rollouts");
    expect(text).toContain("held-out selection reward 0.450 [0.400, 0.500] n=9 at step 3");
    expect(text).toContain("held-out report    reward 0.300 (n=2 is too small) at step 3 (weights of step 2)");
    expect(text).toContain("health   no-signal since step 3");
    expect(text.indexOf("It threw.")).toBeLessThan(text.indexOf("polite-1"));
    expect(text).toContain("klCoefficient 0.000 → 0.050. Because.");
  });

  it.each(["tty", "plain"] as const)("shows the mismatch where sampling was shaped (%s)", (mode) => {
    const writes: string[] = [];
    const view = createLiveView({ stream: { write: (text) => writes.push(text) }, mode, color: false });
    view.onStart!(run);
    const end = stepEnd(1, 0.2);
    view.onStepEnd!({ ...end, metrics: { ...end.metrics, mismatch: 0.25 } });
    expect(screen(writes).join("\n")).toMatch(/clip 3.4% +mismatch 0.250/);
  });

  it("shows the loss and how the held-out numbers have come on, where data is learnt from", async () => {
    const show = async (mode: "tty" | "plain") => {
      const writes: string[] = [];
      const stream = { write: (text: string) => writes.push(text), columns: 100 };
      const callbacks = createLiveView({ stream, mode, color: false, now: () => 0 });
      await tableLearner("sft").run({ dir: false, name: "chats", callbacks });
      return mode === "tty" ? screen(writes).join("\n") : writes.join("");
    };
    const text = await show("tty");
    expect(text).toMatch(/chats {2}sft · seed 3/);
    expect(text).toMatch(/step +16\/16 {2}━+ {2}100% {3}eta 0s/);
    expect(text).toMatch(/\nloss +\d\.\d{3} {2}[▁▂▃▄▅▆▇█]{16} {2}-\d\.\d{3} \(last ¼ − first ¼\)\n/);
    expect(text).toMatch(/held-out loss (\d\.\d{3}) → \d\.\d{3} {2}perplexity [\d.]+ → [\d.]+ at step 16/);
    expect(text).toMatch(/speed +[\d.k]+ tokens\/s\n/);
    const lines = (await show("plain")).split("\n");
    expect(lines[2]).toMatch(/^held-out at step 0: loss \d\.\d{3} {2}perplexity [\d.]+ {2}tokens 7$/);
    expect(lines[3]).toMatch(/^step 1\/16 {2}loss \d\.\d{3} {2}\d+ tokens\/s {2}eta 0s$/);
  });

  it.each(["tty", "plain"] as const)("shows no distance that one update a rollout could not have seen (%s)", (mode) => {
    const shown = (metrics: object) => {
      const writes: string[] = [];
      const view = createLiveView({ stream: { write: (text) => writes.push(text) }, mode, color: false });
      view.onStart!(run);
      view.onStepEnd!({ ...stepEnd(1, 0.2), metrics: { step: 1, reward: 0.2, ...metrics } });
      return screen(writes)
        .filter((line) => !line.startsWith("set"))
        .join("\n");
    };
    expect(shown({})).not.toMatch(/kl|clip/);
    expect(shown({ approxKl: 0.02 })).toContain("step kl 0.020");
    expect(shown({ trustRegionKl: 0.01 })).toContain("step kl 0.010");
    expect(shown({ approxKl: 0.02, kl: 0.5 })).toMatch(/(?<!step )kl 0.500/);
  });

  it("takes a verdict back when it no longer holds", () => {
    const writes: string[] = [];
    const view = createLiveView({ stream: { write: (text) => writes.push(text) }, mode: "tty", color: false });
    view.onStart!(run);
    view.onStepEnd!(stepEnd(1, 0.2));
    const verdict = { severity: "warning", message: "Look.", advice: "Act." } as const;
    view.onVerdict!({ ...verdict, kind: "repetition", step: 1 });
    view.onVerdict!({ ...verdict, kind: "collapse", step: 1 });
    const health = () => screen(writes).find((line) => line.startsWith("health"));
    expect(health()).toBe("health   collapse since step 1");
    view.recheck(({ kind }) => kind === "repetition");
    expect(health()).toBe("health   repetition since step 1");
    view.recheck(() => false);
    expect(health()).toBeUndefined();
  });

  it("counts what an algorithm does by default as no change", () => {
    const { learningRate, ...config } = resolveConfig({}, { defaults: { groupSize: 4 } });
    const settings = { ...createAlgorithm("gspo").options, ...config, learningRate, algorithm: "gspo" };
    const defaults = defaultsOf("gspo");
    expect(changedSettings({ settings, defaults })).toEqual([`learningRate ${learningRate.toPrecision(2)}`]);
    const own = { ...resolveConfig({}), strength: 2, algorithm: "mine" };
    expect(changedSettings({ settings: own, defaults: defaultsOf("mine") })).toContain("strength 2");
  });

  it("prints plain lines without control characters elsewhere", () => {
    const text = play({}).join("");
    expect(text).not.toContain("\u001b");
    expect(text).toContain(
      "step 2/4  reward 0.300 ± 0.200  kl 0.013  entropy 1.500  clip 3.4%  1234 tokens/s  rollout 70%  reused 97%  failed 1  eta 20s\n",
    );
    expect(text).toContain("held-out (selection) at step 3: reward 0.450");
    expect(text).toContain("held-out (report) at step 3 (weights of step 2): reward 0.300");
    expect(text.trimEnd().endsWith("finished after 3 steps. The weights are step 2's, which did best")).toBe(true);
  });

  it("says in plain lines how far it is while something takes long", () => {
    vi.useFakeTimers();
    try {
      const writes: string[] = [];
      const view = createLiveView({ stream: { write: (text) => writes.push(text) }, color: false });
      view.onStart!(run);
      view.onProgress!({ step: 0, totalSteps: 4, phase: "evaluating", done: 0, of: 32, tokens: 0 });
      vi.advanceTimersByTime(9000);
      view.onProgress!({ step: 0, totalSteps: 4, phase: "evaluating", done: 3, of: 32, tokens: 1500 });
      vi.advanceTimersByTime(1000);
      view.onStepStart!({ step: 1, totalSteps: 4, learningRate: 1 });
      view.onProgress!({ step: 1, totalSteps: 4, phase: "learning" });
      vi.advanceTimersByTime(10_000);
      expect(writes.slice(1)).toEqual([
        "evaluating  3 of 32 conversations  1.5k tokens  10s\n",
        "step 1: learning  10s\n",
      ]);
      view.onEnd!({ status: "finished", steps: 4 } as never);
      vi.advanceTimersByTime(60_000);
      expect(writes).toHaveLength(4);
    } finally {
      vi.useRealTimers();
    }
  });

  it("prints one JSON object a line and nothing else with json", () => {
    const events = play({ mode: "json" })
      .join("")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(events.map(({ type }) => type)).toEqual([
      "start",
      "step",
      "step",
      "step",
      "evaluation",
      "evaluation",
      "warning",
      "adjustment",
      "verdict",
      "end",
    ]);
    expect(events[0]).toMatchObject({ run: "polite-1", settings: { steps: 4 }, resumedAfter: null });
    expect(events[1]).toMatchObject({ step: 1, totalSteps: 4, reward: 0.2, timing: { rolloutMs: 700 } });
  });

  it("colours only when asked to", () => {
    expect(play({ mode: "tty", color: true }).join("")).toContain("\u001b[1m");
    expect(play({ mode: "tty", color: false }).join("")).not.toContain("\u001b[1m");
  });
});

describe("formats", () => {
  it("fit what people read", () => {
    expect([duration(4_000), duration(185_000), duration(7_620_000)]).toEqual(["4s", "3m 05s", "2h 07m"]);
    expect([bytes(512), bytes(12_000_000)]).toEqual(["512 B", "11.4 MiB"]);
    expect(sparkline([1, 1])).toBe("▄▄");
    // Where there is less room than there are values, each bar is the mean of several.
    expect(sparkline([0, 2, 5, 7, 8, 10], 3)).toBe("▁▅█");
    // Wide characters take two columns, accents of their own none.
    expect([width("日本"), width("e\u0301"), width("👍")]).toEqual([4, 1, 2]);
    expect(clip("日本語です", 6)).toBe("日本…");
    expect(clip("\u001b[1mabcdef\u001b[22m", 4)).toBe("\u001b[1mabc\u001b[22m…");
    expect(
      table(
        ["name", "n"],
        [
          ["a", "10"],
          ["bcdef", "2"],
        ],
      ),
    ).toEqual(["name    n", "a      10", "bcdef   2"]);
    expect(differences({ a: { b: 1, c: [1] }, d: 2 }, { a: { b: 2, c: [1] }, e: 3 })).toEqual([
      { path: "a.b", a: 1, b: 2 },
      { path: "d", a: 2, b: undefined },
      { path: "e", a: undefined, b: 3 },
    ]);
  });
});

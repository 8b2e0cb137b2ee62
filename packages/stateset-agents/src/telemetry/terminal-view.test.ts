/** The live view on terminals of several sizes, while a step goes on. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { printable } from "../printable.ts";
import { emptyReport } from "../rollout/report.ts";
import type { RunProgress, RunStart, StepEnd } from "../run/callbacks.ts";
import { fakeGroup } from "../test-support/fake-group.ts";
import { FakeTerminal } from "../test-support/fake-terminal.ts";
import { tableLearner } from "../test-support/table-learners.ts";
import { width } from "./format.ts";
import { createLiveView, type LiveViewOptions } from "./live-view.ts";
import { Screen } from "./screen.ts";
import { endsOf } from "./view-state.ts";

const run: RunStart = {
  id: "a-run-whose-name-is-rather-long-for-a-narrow-terminal",
  dir: undefined,
  learner: "grpo",
  steps: 20,
  settings: {
    learningRate: 1e-4,
    groupSize: 8,
    groupsPerStep: 12,
    seed: 7,
    profile: "balanced",
    maxTurns: 3,
    steps: 20,
  },
  defaults: { groupSize: 4, groupsPerStep: 4, maxTurns: 16, steps: 100 },
  saved: {} as RunStart["saved"],
  resumedAfter: undefined,
};

const stepEnd = (step: number, reward: number): StepEnd => ({
  step,
  totalSteps: 20,
  metrics: {
    step,
    reward,
    rewardStd: 0.2,
    kl: 0.0125,
    entropy: 1.5,
    clipFraction: 0.034,
    mismatch: 0.002,
    gradNorm: 0.9,
    replyTokens: 31.4,
    constantGroups: 0.25,
    learningRate: 1e-4,
  },
  timing: { step, rolloutMs: 7000, updateMs: 3000, tokensPerSecond: 1234 },
  stop: () => {},
  tell: async () => {},
});

const groups = [
  fakeGroup("late", [{ reward: 0.25, text: "I am \u001b[31msorry\u001b[0m\n\tto hear 日本語 that. ".repeat(20) }]),
];
const report = { ...emptyReport(), requested: 96 };
const estimate = { mean: 0.45, low: 0.4, high: 0.5, count: 9 };

interface Played {
  terminal: FakeTerminal;
  view: ReturnType<typeof createLiveView>;
  /** Lets the clock go on; the view is drawn once in the meantime, not every time it would be. */
  wait(ms: number): void;
  progress(progress: Omit<RunProgress, "totalSteps">): void;
}

function open(
  columns: number,
  options: Partial<LiveViewOptions> & { rows?: number; start?: Partial<RunStart> } = {},
): Played {
  const { rows, start, ...rest } = options;
  const terminal = new FakeTerminal(columns, rows);
  const view = createLiveView({ stream: terminal, mode: "tty", color: true, ...rest });
  view.onStart!({ ...run, ...start });
  return {
    terminal,
    view,
    wait(ms) {
      vi.setSystemTime(Date.now() + ms - 200);
      vi.advanceTimersByTime(200);
    },
    progress: (progress) => view.onProgress!({ totalSteps: 20, ...progress }),
  };
}

/** Twelve steps of ten seconds each. */
function twelveSteps(played: Played): Played {
  for (let step = 1; step <= 12; step++) {
    played.view.onStepStart!({ step, totalSteps: 20, learningRate: 1e-4 });
    played.progress({ step, phase: "sampling", done: 0, of: 96, tokens: 0 });
    played.wait(7000);
    played.view.onRollouts!({ step, groups, report });
    played.progress({ step, phase: "learning" });
    played.wait(3000);
    played.view.onStepEnd!(stepEnd(step, step % 2 === 0 ? 0.1 * step : 0.1 * step - 0.3));
  }
  const facts = { parts: {}, scenarios: [], failed: 0, lost: 0, failures: [], stop: () => {} };
  played.view.onEvaluation!({ step: 12, set: "report", weightsOf: 10, reward: estimate, ...facts });
  played.view.onWarning!({
    step: 12,
    kind: "environment-failed",
    message: `It threw ${"again and ".repeat(20)}again.`,
  });
  return played;
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe("on a terminal", () => {
  it.each([40, 60, 80, 120, 200])("of %i columns no line is too long, and each is drawn once", (columns) => {
    const { terminal, view } = twelveSteps(open(columns));
    view.onEnd!({ status: "finished", steps: 12 });
    expect(terminal.overflows).toBe(0);
    expect(Math.max(...terminal.lines().map(width))).toBeLessThanOrEqual(columns);
    for (const label of ["step", "reward", "learning", "speed", "failed", "held-out"]) {
      expect(terminal.lines().filter((line) => line.startsWith(`${label} `))).toHaveLength(1);
    }
  });

  it("of 60 columns everything is still said, in more lines", () => {
    const text = twelveSteps(open(60)).terminal.text();
    expect(text).not.toContain("groups alike");
    for (const said of [
      "kl 0.013",
      "entropy 1.500",
      "clip 3.4%",
      "mismatch 0.002",
      "grad 0.900",
      "reply 31.4 tokens",
    ]) {
      expect(text).toContain(said);
    }
    expect(text).toMatch(/held-out report {4}reward 0.450 \[0.400, 0.500\] n=9\n +at step 12 \(weights of step 10\)/);
  });

  it("that is wide the curve is long, more is said, and a whole conversation stands beside", () => {
    const start = resumed(300);
    const bars = (columns: number) => {
      const { terminal, view } = open(columns, { start });
      view.onEnd!({ status: "interrupted", steps: 300 });
      return /[▁▂▃▄▅▆▇█]+/.exec(terminal.text())![0].length;
    };
    const [narrow, usual, wide] = [bars(60), bars(80), bars(200)];
    expect(narrow).toBeLessThan(50);
    expect(usual).toBeGreaterThan(narrow);
    expect(wide).toBeGreaterThan(usual);
    const text = twelveSteps(open(200)).terminal.text();
    expect(text).toMatch(/│ late · reward 0.250 · first conversation of step 12/);
    expect(text).toMatch(/│ agent: I am/);
    // The bar of the steps takes the room that the numbers have: three fifths of the width.
    expect(/[━─]{20,}/.exec(text)![0].length).toBeGreaterThan(80);
    expect(text).toContain("groups alike 25%");
  });

  it("shows what an agent did beside what it said", () => {
    const played = twelveSteps(open(200));
    const [group] = groups;
    const [one] = group!.trajectories;
    const call = { id: "1", type: "function", function: { name: "get_order", arguments: '{"id": 7}' } } as const;
    const turns: Turn[] = [
      { role: "user", content: "Where is it?" },
      { role: "assistant", content: "", tool_calls: [call] },
      { role: "tool", tool_call_id: "1", content: "shipped" },
      { role: "assistant", content: "On its way." },
    ];
    const acting = [{ ...group!, trajectories: [{ ...one!, turns }] }];
    played.view.onRollouts!({ step: 13, groups: acting, report });
    played.wait(1000);
    const shown = played.terminal.lines().flatMap((line) => line.split("│")[1]?.trim() ?? []);
    expect(shown.slice(1, 5)).toEqual([
      "user: Where is it?",
      '→ get_order {"id": 7}',
      "← shipped",
      "agent: On its way.",
    ]);
  });

  it("moves inside a step: conversations, tokens, seconds and the time that is left", () => {
    const played = open(80);
    const { terminal, wait, progress, view } = played;
    progress({ step: 0, phase: "evaluating", done: 3, of: 60, tokens: 1200 });
    wait(61_000);
    expect(terminal.text()).toMatch(/now +evaluating {2}3 of 60 conversations {2}1.2k tokens {2}1m 01s/);
    twelveSteps(played);
    const eta = () => /eta (\S+( \S+)?)/.exec(terminal.text())![1];
    // The evaluation before the first step does not count: 8 steps of ten seconds are left.
    expect(eta()).toBe("1m 20s");
    view.onStepStart!({ step: 13, totalSteps: 20, learningRate: 1e-4 });
    progress({ step: 13, phase: "sampling", done: 0, of: 96, tokens: 0 });
    wait(4000);
    progress({ step: 13, phase: "sampling", done: 31, of: 96, tokens: 2345 });
    wait(400);
    expect(terminal.text()).toMatch(/now +step 13: sampling {2}31 of 96 conversations {2}2.3k tokens {2}4s of ~10s\n/);
    expect(eta()).toBe("1m 16s");
    progress({ step: 13, phase: "learning" });
    wait(3000);
    expect(terminal.text()).toMatch(/now +step 13: learning {2}7s of ~10s\n/);
    expect(eta()).toBe("1m 13s");
    // A step that takes longer than the others does not make those after it shorter.
    wait(60_000);
    expect(eta()).toBe("1m 10s");
    progress({ step: 13, phase: "saving" });
    wait(200);
    expect(terminal.text()).toContain("saving");
    view.onStepEnd!(stepEnd(13, 0.5));
    expect(terminal.text()).not.toContain("saving");
  });

  it("is left alone by progress itself, and while nothing changes", () => {
    const { terminal, wait, progress } = open(80);
    const before = terminal.writes;
    for (let done = 0; done < 1000; done++) progress({ step: 1, phase: "sampling", done, of: 1000, tokens: done });
    expect(terminal.writes).toBe(before);
    wait(200);
    expect(terminal.writes).toBe(before + 1);
    wait(600);
    expect(terminal.writes).toBeLessThanOrEqual(before + 2);
  });

  it("stops drawing when the run ends", () => {
    const { terminal, view, wait } = twelveSteps(open(80));
    view.onEnd!({ status: "interrupted", steps: 12 });
    const before = terminal.writes;
    wait(5000);
    expect(terminal.writes).toBe(before);
    expect(vi.getTimerCount()).toBe(0);
  });

  it("stays empty when a run fails before it has begun", () => {
    const terminal = new FakeTerminal(80);
    const view = createLiveView({ stream: terminal, mode: "tty" });
    view.onEnd!({ status: "failed", steps: 0 });
    expect(terminal.text()).toBe("");
    view.note("A line of its own.");
    expect(terminal.lines()).toEqual(["A line of its own.", ""]);
  });

  it("shows of a second run nothing that the first one did", () => {
    const played = twelveSteps(open(80));
    const { terminal, view } = played;
    view.onVerdict!({ step: 12, kind: "collapse", severity: "warning", message: "Bad.", advice: "Stop." } as never);
    view.onEnd!({ status: "finished", steps: 12 });
    const rows = terminal.lines().length;
    view.onStart!({ ...run, id: "second" });
    const second = () =>
      terminal
        .lines()
        .slice(rows - 1)
        .join("\n");
    expect(second()).toContain("second");
    const alone = new FakeTerminal(80);
    const other = createLiveView({ stream: alone, mode: "tty", color: true });
    other.onStart!({ ...run, id: "second" });
    expect(second()).toBe(alone.text());
    view.onEnd!({ status: "finished", steps: 0 });
    const ended = terminal.text();
    // A third one fails before it begins: the second one's view is not drawn again.
    view.onEnd!({ status: "failed", steps: 0 });
    expect(terminal.text()).toBe(ended);
  });

  it("with few rows leaves out what would scroll away", () => {
    const { terminal, wait, progress } = twelveSteps(open(80, { rows: 9 }));
    const before = terminal.lines().length;
    for (let i = 0; i < 5; i++) {
      progress({ step: 13, phase: "sampling", done: i, of: 96, tokens: 0 });
      wait(1000);
    }
    expect(terminal.lines().length).toBeLessThanOrEqual(before + 1);
    expect(terminal.lines().filter((line) => line.startsWith("now"))).toHaveLength(1);
  });
});

describe("what a program prints meanwhile", () => {
  it("stays above the view, line by line, and the terminal is given back", () => {
    const terminal = new FakeTerminal(80);
    const stdout = { isTTY: true, write: (_: string) => expect.unreachable("the view was written over") };
    let number = 1;
    const screen = new Screen(terminal, () => [`view ${number}`], [stdout, terminal]);
    const second = new Screen(terminal, () => ["other"], [stdout, terminal]);
    expect(screen.take()).toBe(true);
    expect(second.take()).toBe(false);
    screen.draw();
    stdout.write("a\nb");
    expect(terminal.lines()).toEqual(["a", "view 1", ""]);
    stdout.write(" c\n");
    number = 2;
    screen.draw();
    terminal.write("d\n");
    stdout.write("e");
    expect(terminal.lines()).toEqual(["a", "b c", "d", "view 2", ""]);
    screen.leave();
    terminal.write("after\n");
    expect(terminal.lines()).toEqual(["a", "b c", "d", "view 2", "e", "view 2", "after", ""]);
    expect(() => stdout.write("mine")).toThrow();
    expect(second.take()).toBe(true);
    second.leave();
  });
});

describe("a sampled reply", () => {
  it("is that of the step's first conversation, in two lines, and moves no cursor", () => {
    const { terminal } = twelveSteps(open(60));
    const lines = terminal.lines();
    const at = lines.findIndex((line) => line.startsWith("sample"));
    expect(lines[at]).toBe("sample   late · reward 0.250 · first conversation of step 12");
    expect(lines[at + 1]).toMatch(/^ {2}user +\S/);
    expect(lines[at + 2]).toMatch(/^ {2}agent +I am \ufffd\[31msorry\ufffd\[0m to hear 日本語 that\./);
    expect(lines[at + 3]).toMatch(/^ {9}\S.*…$/);
    expect(lines[at + 4]).toBe("");
  });

  it("keeps letters and loses what acts on a terminal", () => {
    expect(printable("a\r\nb\u0007\u009b31m\u202ec é日👍")).toBe("a b\ufffd\ufffd31m\ufffdc é日👍");
  });
});

/** A run of so many steps that goes on. */
function resumed(steps: number): Pick<RunStart, "dir" | "resumedAfter" | "steps"> {
  const dir = temporaryFolder();
  const record = (step: number) =>
    JSON.stringify({ step, ...(step > 0 && { reward: step < steps / 2 ? 0 : 1, loss: 1 }) });
  // The last line is of a step that is to be done again.
  writeFileSync(
    join(dir, "metrics.jsonl"),
    Array.from({ length: steps + 2 }, (_, step) => `${record(step)}\n`).join(""),
  );
  return { dir, resumedAfter: steps, steps: steps + 20 };
}

describe("the curve", () => {
  it("goes on where it was when the run is resumed", () => {
    const start = resumed(10);
    const { terminal } = open(80, { start });
    expect(terminal.text()).toMatch(/step +10\/30/);
    expect(terminal.text()).toMatch(/reward +1.000 {2}▁▁▁▁██████ {2}\+1.000/);
  });

  it("says how far it has come by quarters, not by two steps", () => {
    expect(endsOf([0, 1, 0, 1, 0, 1, 0])).toBeUndefined();
    // The last step is 1 and the first 0, and nothing was gained.
    expect(endsOf([0, 1, 0, 1, 0, 1, 0, 1])).toEqual({ first: 0.5, last: 0.5 });
    expect(endsOf([1, 2, 3, 9, 9, 9, 9, 9, 9, 5, 6, 7])).toEqual({ first: 2, last: 6 });
  });
});

describe("what a run tells inside a step", () => {
  it.each(["rl", "sft"] as const)("is every phase, in order, with its step (%s)", async (kind) => {
    vi.useRealTimers();
    const told: RunProgress[] = [];
    const dir = temporaryFolder();
    await tableLearner(kind).run({ dir, callbacks: { onProgress: (progress) => void told.push(progress) } });
    const phases = (step: number) => told.filter((one) => one.step === step).map(({ phase }) => phase);
    const distinct = (step: number) => phases(step).filter((phase, i, all) => phase !== all[i - 1]);
    const done = kind === "rl" ? ["sampling", "rewarding", "learning"] : ["learning"];
    expect(distinct(1).slice(0, done.length)).toEqual(done);
    const phasesOfAll = new Set(told.map(({ phase }) => phase));
    expect(phasesOfAll).toEqual(new Set([...done, "evaluating", "saving"]));
    if (kind === "sft") return;
    const sampled = told.filter(({ step, phase }) => step === 1 && phase === "sampling");
    expect(sampled[0]).toMatchObject({ done: 0, tokens: 0 });
    expect(sampled.at(-1)!.done).toBe(sampled.at(-1)!.of);
    expect(sampled.at(-1)!.tokens).toBeGreaterThan(0);
  });

  it("may go wrong in a callback: it is said once, and the run goes on", async () => {
    vi.useRealTimers();
    const said: string[] = [];
    let calls = 0;
    const summary = await tableLearner("rl").run({
      dir: false,
      callbacks: {
        onProgress() {
          calls++;
          throw new Error("no");
        },
        onWarning: ({ kind, message }) => void (kind === "callback-failed" && said.push(message)),
      },
    });
    expect(summary.status).toBe("finished");
    expect(calls).toBe(1);
    expect(said).toEqual(["A callback's onProgress threw: no. It is no longer called."]);
  });
});

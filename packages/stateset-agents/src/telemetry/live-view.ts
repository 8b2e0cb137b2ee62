/** A run on a terminal while it goes on: what it is told is kept in a ViewState, drawn by view-lines.ts or said by plain-lines.ts. */
import pc from "picocolors";
import type { RunCallbacks } from "../run/callbacks.ts";
import type { Verdict } from "../run/event.ts";
import { wrap } from "./columns.ts";
import { number } from "./format.ts";
import { endLine, progressText, stepLine } from "./plain-lines.ts";
import { Screen, type ViewStream } from "./screen.ts";
import { viewLines } from "./view-lines.ts";
import { ViewState } from "./view-state.ts";
import { atStep, changedSettings, evaluationText, nameLine } from "./view-texts.ts";

export type { ViewStream };

export interface LiveViewOptions {
  stream: ViewStream;
  /** "tty" redraws in place, "plain" prints a line a step, "json" one JSON object an event. Default: by the stream. */
  mode?: "tty" | "plain" | "json";
  color?: boolean;
  /** Milliseconds; for tests. */
  now?: () => number;
  /** Lines above the numbers, such as the model's name. */
  title?: string;
}

/** A callback for any run. */
export interface LiveView extends RunCallbacks {
  /** Takes back the verdicts that no longer hold. */
  recheck(holds: (verdict: Verdict) => boolean): void;
  /** A line that stays, above the part that is redrawn. */
  note(text: string): void;
}

/** Often enough to be seen to move, and nothing beside a decoding step. */
const redrawMs = 200;
/** Lines that stay are fewer: only what takes long says how far it is. */
const tellMs = 10_000;

export function createLiveView(options: LiveViewOptions): LiveView {
  const { stream, now = Date.now, title } = options;
  let mode = options.mode ?? (stream.isTTY && process.env.TERM !== "dumb" ? "tty" : "plain");
  const colors = pc.createColors(options.color ?? (mode === "tty" && pc.isColorSupported));
  let state = new ViewState();
  const screen = new Screen(stream, ({ columns, rows }) =>
    viewLines(state, { columns, rows, nowMs: now(), colors, title }),
  );
  let clock: NodeJS.Timeout | undefined;

  const json = (type: string, body: object) => {
    if (mode === "json") stream.write(`${JSON.stringify({ type, ...body })}\n`);
  };
  const plain = (...lines: readonly string[]) => {
    if (mode === "plain") stream.write(lines.map((line) => `${line}\n`).join(""));
  };
  const draw = () => {
    if (mode === "tty") screen.draw();
  };
  const tell = () => {
    if (state.now) plain(progressText(state.now, now() - state.now.sinceMs));
  };
  const note = (text: string) => {
    plain(text);
    if (mode === "tty") screen.above(wrap(text, screen.columns));
  };

  return {
    note,
    onVerdict(verdict) {
      state.verdicts.push(verdict);
      json("verdict", verdict);
      const { severity, step, message, advice } = verdict;
      const mark = { note: colors.dim("·"), warning: colors.yellow("!"), critical: colors.red("✗") }[severity];
      note(`${mark} step ${step}: ${message} ${colors.dim(advice)}`);
    },
    recheck(holds) {
      const held = state.verdicts.filter(holds);
      if (held.length === state.verdicts.length) return;
      state.verdicts = held;
      draw();
    },
    onAdjustment(adjustment) {
      json("adjustment", adjustment);
      const { step, setting, from, to, reason } = adjustment;
      note(`${colors.cyan("↻")} step ${step}: ${setting} ${number(from)} → ${number(to)}. ${colors.dim(reason)}`);
    },
    onStart(run) {
      state.begin(run, now());
      // The lines of a second run go above the first one's view.
      if (mode === "tty" && !screen.take()) mode = "plain";
      const { id, dir, learner, settings, resumedAfter = null } = run;
      json("start", { run: id, dir, learner, settings, resumedAfter });
      const changed = changedSettings(run);
      plain(nameLine(run, title, colors), ...(changed.length === 0 ? [] : [`set  ${changed.join(" · ")}`]));
      draw();
      if (mode === "tty") clock ??= setInterval(draw, redrawMs).unref();
      if (mode === "plain") clock ??= setInterval(tell, tellMs).unref();
    },
    onStepStart: ({ step }) => state.beginStep(step, now()),
    onProgress: (progress) => state.progress(progress, now()),
    onRollouts: ({ step, groups, report }) => state.rollouts(step, groups, report),
    onStepEnd(event) {
      state.endStep(event, now());
      const { metrics, timing, totalSteps } = event;
      json("step", { totalSteps, ...metrics, timing });
      plain(stepLine(state, now()));
      draw();
    },
    onEvaluation({ stop: _, ...event }) {
      state.evaluated(event);
      json("evaluation", event);
      const named = event.set === "held-out" ? "held-out" : `held-out (${event.set})`;
      plain(`${named} ${atStep(event)}: ${evaluationText(event, state.before)}`);
      draw();
    },
    onCheckpoint(event) {
      json("checkpoint", event);
      plain(`checkpoint ${event.dir}${event.best ? " (best)" : ""}`);
    },
    onWarning(warning) {
      json("warning", warning);
      note(`${colors.yellow("!")} step ${warning.step}: ${warning.message}`);
    },
    onEnd(end) {
      clearInterval(clock);
      clock = undefined;
      state.now = undefined;
      json("end", end);
      plain(endLine(end));
      draw();
      screen.leave();
      // What is said from now on is of another run, which may fail before it begins.
      state = new ViewState();
    },
  };
}

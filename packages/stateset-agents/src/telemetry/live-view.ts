import pc from "picocolors";
import { counted } from "../counted.ts";
import { lostBySource } from "../rollout/report.ts";
import type { RunCallbacks, RunStart, StepEnd } from "../run/callbacks.ts";
import { differences } from "../run/differences.ts";
import type { DataEvaluation, EvaluationResult, Verdict } from "../run/event.ts";
import { clip, duration, estimateText, number, padEnd, percent, quantity, sparkline } from "./format.ts";

/** Where the view is written: process.stdout, or anything like it. */
export interface ViewStream {
  write(text: string): unknown;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
  rows?: number | undefined;
}

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

interface ViewState {
  run: RunStart | undefined;
  startedMs: number;
  /** Steps done when this process took over the run. */
  stepsBefore: number;
  rewards: number[];
  losses: number[];
  latest: StepEnd | undefined;
  rolloutMs: number;
  updateMs: number;
  conversations: number;
  failed: { environment: number; reward: number };
  /** The newest of each held-out set. */
  evaluations: Map<EvaluationResult["set"], EvaluationResult>;
  /** The first one that was seen of held-out data. */
  before: DataEvaluation | undefined;
  /** Those that hold, oldest first. */
  verdicts: Verdict[];
}

export function createLiveView(options: LiveViewOptions): LiveView {
  const { stream, now = Date.now, title } = options;
  const mode = options.mode ?? (stream.isTTY ? "tty" : "plain");
  const colors = pc.createColors(options.color ?? (mode === "tty" && pc.isColorSupported));
  const state: ViewState = {
    run: undefined,
    startedMs: now(),
    stepsBefore: 0,
    rewards: [],
    losses: [],
    latest: undefined,
    rolloutMs: 0,
    updateMs: 0,
    conversations: 0,
    failed: { environment: 0, reward: 0 },
    evaluations: new Map(),
    before: undefined,
    verdicts: [],
  };
  let drawn = 0;

  const json = (type: string, body: object) => {
    if (mode === "json") stream.write(`${JSON.stringify({ type, ...body })}\n`);
  };
  const erase = () => {
    if (drawn > 0) stream.write(`\u001b[${drawn}A\u001b[0J`);
    drawn = 0;
  };
  const draw = () => {
    if (mode !== "tty") return;
    const columns = stream.columns ?? 80;
    const lines = render(state, { colors, now: now(), ...(title === undefined ? {} : { title }) }).map((line) =>
      clip(line, columns),
    );
    erase();
    stream.write(lines.map((line) => `${line}\n`).join(""));
    drawn = lines.length;
  };
  const note = (text: string) => {
    if (mode === "json") return;
    erase();
    stream.write(`${text}\n`);
    draw();
  };

  return {
    note,
    onVerdict(verdict) {
      state.verdicts.push(verdict);
      json("verdict", verdict);
      const mark =
        verdict.severity === "note"
          ? colors.dim("·")
          : verdict.severity === "warning"
            ? colors.yellow("!")
            : colors.red("✗");
      note(`${mark} step ${verdict.step}: ${verdict.message} ${colors.dim(verdict.advice)}`);
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
      state.run = run;
      state.startedMs = now();
      state.stepsBefore = run.resumedAfter ?? 0;
      json("start", {
        run: run.id,
        dir: run.dir,
        learner: run.learner,
        settings: run.settings,
        resumedAfter: run.resumedAfter ?? null,
      });
      if (mode === "plain")
        for (const line of heading(state, { colors, ...(title === undefined ? {} : { title }) }))
          stream.write(`${line}\n`);
      draw();
    },
    onRollouts({ report }) {
      const lost = lostBySource(report);
      state.conversations += report.requested;
      state.failed.environment += report.failed.length + lost.environment + lost.agent;
      state.failed.reward += lost.reward;
    },
    onStepEnd(event) {
      const { metrics, timing } = event;
      state.latest = event;
      if (metrics.reward !== undefined) state.rewards.push(metrics.reward);
      if (metrics.loss !== undefined) state.losses.push(metrics.loss);
      state.rolloutMs += timing.rolloutMs;
      state.updateMs += timing.updateMs;
      json("step", { totalSteps: event.totalSteps, ...metrics, timing });
      if (mode === "plain") stream.write(`${plainLine(state, now())}\n`);
      draw();
    },
    onEvaluation({ stop: _, ...event }) {
      state.evaluations.set(event.set, event);
      if (event.set === "held-out") state.before ??= event;
      json("evaluation", event);
      const named = event.set === "held-out" ? "held-out" : `held-out (${event.set})`;
      if (mode === "plain") stream.write(`${named} ${atStep(event)}: ${evaluationText(event, state.before)}\n`);
      draw();
    },
    onCheckpoint(event) {
      json("checkpoint", event);
      if (mode === "plain") stream.write(`checkpoint ${event.dir}${event.best ? " (best)" : ""}\n`);
    },
    onWarning(warning) {
      json("warning", warning);
      note(`${colors.yellow("!")} step ${warning.step}: ${warning.message}`);
    },
    onEnd(end) {
      json("end", end);
      if (mode === "plain")
        stream.write(
          `${end.status} after ${counted(end.steps, "step")}${end.reason ? `: ${end.reason}` : ""}${end.weights ? `. The weights are ${end.weights.why}` : ""}\n`,
        );
      draw();
      drawn = 0;
    },
  };
}

type Colors = ReturnType<typeof pc.createColors>;
interface RenderOptions {
  colors: Colors;
  title?: string;
}

function heading({ run }: ViewState, { colors, title }: RenderOptions): string[] {
  if (!run) return [];
  const { learner, settings } = run;
  const { profile, seed } = settings;
  const facts = [title, learner, profile, seed === undefined ? undefined : `seed ${seed}`];
  const lines = [`${colors.bold(run.id)}  ${colors.dim(facts.filter((fact) => fact !== undefined).join(" · "))}`];
  const changed = changedSettings(run);
  if (changed.length > 0) lines.push(`${colors.dim("set")}  ${changed.join(colors.dim(" · "))}`);
  return lines;
}

/** Said elsewhere, or chosen for the model rather than by the user. */
const notChosen = ["algorithm", "seed", "profile", "learningRate", "valueLearningRate"];

/** What differs from the defaults of the library and of the algorithm, as "path value". */
export function changedSettings({ settings, defaults }: Pick<RunStart, "settings" | "defaults">): string[] {
  const changed = differences(defaults, settings)
    .filter(({ path }) => !notChosen.includes(path))
    .map(({ path, b }) => `${path} ${typeof b === "string" ? b : JSON.stringify(b)}`);
  const { learningRate } = settings;
  return typeof learningRate === "number" ? [...changed, `learningRate ${learningRate.toPrecision(2)}`] : changed;
}

function render(state: ViewState, options: RenderOptions & { now: number }): string[] {
  const { colors } = options;
  const lines = ["", ...heading(state, options), ""];
  const { latest, run } = state;
  if (!latest) return [...lines, colors.dim(run ? `step ${state.stepsBefore + 1}/${run.steps} …` : "starting …")];
  const { metrics, timing, step, totalSteps } = latest;
  const label = (name: string) => colors.dim(padEnd(name, 9));
  const fact = (name: string, value: string | undefined) =>
    value === undefined ? undefined : `${colors.dim(name)} ${value}`;
  const joined = (...facts: (string | undefined)[]) => facts.filter((part) => part !== undefined).join("   ");

  const filled = Math.round((step / totalSteps) * 24);
  const bar = colors.cyan("━".repeat(filled)) + colors.dim("─".repeat(24 - filled));
  lines.push(
    `${label("step")}${colors.bold(`${step}/${totalSteps}`)}  ${bar}  ${percent(step / totalSteps)}   ${fact("eta", eta(state, options.now))}`,
  );

  /** A number, its course and how far it has come. A loss is better the lower it is. */
  const course = (name: string, values: readonly number[], better: 1 | -1, beside = "") => {
    const [first, last] = [values[0]!, values.at(-1)!];
    const gain = last - first;
    const change = (gain * better >= 0 ? colors.green : colors.red)(`${gain >= 0 ? "+" : ""}${number(gain)}`);
    lines.push(`${label(name)}${colors.bold(number(last))}${beside}  ${colors.cyan(sparkline(values))}  ${change}`);
  };
  if (metrics.reward !== undefined) course("reward", state.rewards, 1, ` ± ${number(metrics.rewardStd ?? 0)}`);
  else if (metrics.loss !== undefined && state.rewards.length === 0) course("loss", state.losses, -1);
  const numbers = joined(
    ...distance(metrics).map(([name, value]) => fact(name, value)),
    fact("entropy", metrics.entropy === undefined ? undefined : number(metrics.entropy)),
    fact("clip", metrics.clipFraction === undefined ? undefined : percent(metrics.clipFraction)),
    fact("mismatch", metrics.mismatch === undefined ? undefined : number(metrics.mismatch)),
    fact("grad", metrics.gradNorm === undefined ? undefined : number(metrics.gradNorm)),
    fact("reply", metrics.replyTokens === undefined ? undefined : `${metrics.replyTokens.toFixed(1)} tokens`),
  );
  if (numbers !== "") lines.push(`${label("learning")}${numbers}`);
  const total = Math.max(1, state.rolloutMs + state.updateMs);
  lines.push(
    `${label("speed")}${joined(`${quantity(timing.tokensPerSecond)} tokens/s`, ...(state.rolloutMs === 0 ? [] : [fact("rollout", percent(state.rolloutMs / total)), fact("update", percent(state.updateMs / total))]))}`,
  );
  if (state.conversations > 0) lines.push(`${label("failed")}${failedText(state, colors)}${colors.dim(" rollouts")}`);
  for (const evaluation of state.evaluations.values()) {
    const set = evaluation.set === "held-out" ? "" : `${padEnd(evaluation.set, 10)}`;
    lines.push(
      `${label("held-out")}${set}${evaluationText(evaluation, state.before)} ${colors.dim(atStep(evaluation))}`,
    );
  }
  const verdict = state.verdicts.at(-1);
  if (verdict)
    lines.push(`${label("health")}${colors.yellow(verdict.kind)} ${colors.dim(`since step ${verdict.step}`)}`);
  return lines;
}

function plainLine(state: ViewState, now: number): string {
  const { metrics, timing, step, totalSteps } = state.latest!;
  const total = Math.max(1, timing.rolloutMs + timing.updateMs);
  return [
    `step ${step}/${totalSteps}`,
    metrics.reward === undefined ? undefined : `reward ${number(metrics.reward)} ± ${number(metrics.rewardStd ?? 0)}`,
    metrics.reward !== undefined || metrics.loss === undefined ? undefined : `loss ${number(metrics.loss)}`,
    ...distance(metrics).map(([name, value]) => `${name} ${value}`),
    metrics.entropy === undefined ? undefined : `entropy ${number(metrics.entropy)}`,
    metrics.clipFraction === undefined ? undefined : `clip ${percent(metrics.clipFraction)}`,
    metrics.mismatch === undefined ? undefined : `mismatch ${number(metrics.mismatch)}`,
    `${Math.round(timing.tokensPerSecond)} tokens/s`,
    timing.rolloutMs === 0 ? undefined : `rollout ${percent(timing.rolloutMs / total)}`,
    state.conversations === 0 ? undefined : `failed ${state.failed.environment + state.failed.reward}`,
    `eta ${eta(state, now)}`,
  ]
    .filter((part) => part !== undefined)
    .join("  ");
}

/** From the reference, or else what the step moved; nothing where one update a rollout could not see that. */
function distance({ kl, approxKl, trustRegionKl }: StepEnd["metrics"]): [name: string, value: string][] {
  const moved = approxKl ?? trustRegionKl;
  if (kl !== undefined) return [["kl", number(kl)]];
  return moved === undefined ? [] : [["step kl", number(moved)]];
}

function eta(state: ViewState, now: number): string {
  const { step, totalSteps } = state.latest!;
  const done = step - state.stepsBefore;
  return duration(((now - state.startedMs) / Math.max(1, done)) * (totalSteps - step));
}

function failedText({ failed: { environment, reward }, conversations }: ViewState, colors: Colors): string {
  const lost = environment + reward;
  if (lost === 0) return `0 of ${conversations}`;
  return colors.yellow(`${lost} of ${conversations} (environment ${environment}, reward ${reward})`);
}

/** Of held-out data also what it was at first; how much data there is was said then. */
function evaluationText(evaluation: EvaluationResult, before: DataEvaluation | undefined): string {
  if (evaluation.set !== "held-out") return `reward ${estimateText(evaluation.reward)}`;
  const isCount = (value: number) => Number.isInteger(value) && value > 1;
  const shown = (value: number) => (isCount(value) ? String(value) : number(value));
  return Object.entries(evaluation.numbers)
    .flatMap(([name, value]) => {
      const first = before === evaluation ? undefined : before?.numbers[name];
      if (isCount(value) && first === value) return [];
      return [`${name} ${first === undefined || first === value ? "" : `${shown(first)} → `}${shown(value)}`];
    })
    .join("  ");
}

function atStep(evaluation: EvaluationResult): string {
  const of = evaluation.set === "held-out" ? undefined : evaluation.weightsOf;
  return `at step ${evaluation.step}${of === undefined ? "" : ` (weights of step ${of})`}`;
}

import pc from "picocolors";
import { algorithmDefaults, algorithmNames, defaultGroupSize } from "../algorithm/algorithms.ts";
import { lostBySource } from "../rollout/report.ts";
import type { EvaluationResult } from "../run/events.ts";
import type { Adjustment } from "../training/auto-adjust.ts";
import type { RunStart, StepEnd, TrainingCallbacks } from "../training/callbacks.ts";
import { resolveConfig } from "../training/config.ts";
import type { Verdict } from "../training/diagnostics/verdicts.ts";
import { clip, duration, number, padEnd, percent, quantity, sparkline } from "./format.ts";
import { differences } from "./settings.ts";

/** Where the view is written: process.stdout, or anything like it. */
export interface ViewStream {
  write(text: string): unknown;
  isTTY?: boolean | undefined;
  columns?: number | undefined;
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

export interface LiveView extends TrainingCallbacks {
  verdict(verdict: Verdict): void;
  /** Takes back the verdicts that no longer hold. */
  recheck(holds: (verdict: Verdict) => boolean): void;
  adjustment(adjustment: Adjustment): void;
  /** A line that stays, above the part that is redrawn. */
  note(text: string): void;
}

interface ViewState {
  run: RunStart | undefined;
  startedMs: number;
  /** Steps done when this process took over the run. */
  stepsBefore: number;
  rewards: number[];
  latest: StepEnd | undefined;
  rolloutMs: number;
  updateMs: number;
  conversations: number;
  failed: { environment: number; reward: number };
  evaluation: EvaluationResult | undefined;
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
    latest: undefined,
    rolloutMs: 0,
    updateMs: 0,
    conversations: 0,
    failed: { environment: 0, reward: 0 },
    evaluation: undefined,
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
    verdict(verdict) {
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
    adjustment(adjustment) {
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
        config: run.config,
        algorithm: run.algorithm,
        resumedAfter: run.resumedAfter ?? null,
      });
      if (mode === "plain")
        for (const line of heading(state, { colors, ...(title === undefined ? {} : { title }) }))
          stream.write(`${line}\n`);
      draw();
    },
    onStepEnd(event) {
      const { metrics, timing, report } = event;
      state.latest = event;
      if (metrics.reward !== undefined) state.rewards.push(metrics.reward);
      state.rolloutMs += timing.rolloutMs;
      state.updateMs += timing.updateMs;
      state.conversations += report.requested;
      const lost = lostBySource(report);
      state.failed.environment += lost.environment + lost.agent;
      state.failed.reward += lost.reward;
      json("step", { totalSteps: event.totalSteps, ...metrics, timing });
      if (mode === "plain") stream.write(`${plainLine(state, now())}\n`);
      draw();
    },
    onEvaluation(event) {
      state.evaluation = event;
      json("evaluation", event);
      const { set, step, reward } = event;
      if (mode === "plain") stream.write(`held-out (${set}) at step ${step}: reward ${interval(reward)}\n`);
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
        stream.write(`${end.status} after ${end.steps} steps${end.reason ? `: ${end.reason}` : ""}\n`);
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
  const { config, algorithm } = run;
  const facts = [title, algorithm.name, config.profile, `seed ${config.seed}`].filter((fact) => fact !== undefined);
  const lines = [`${colors.bold(run.id)}  ${colors.dim(facts.join(" · "))}`];
  const changed = changedSettings(run);
  if (changed.length > 0) lines.push(`${colors.dim("set")}  ${changed.join(colors.dim(" · "))}`);
  return lines;
}

/** What differs from the defaults of the library and of the algorithm, as "path value". */
export function changedSettings({ config, algorithm }: Pick<RunStart, "config" | "algorithm">): string[] {
  const known = algorithmNames.find((name) => name === algorithm.name);
  const defaults = {
    ...resolveConfig({}, { defaults: { groupSize: defaultGroupSize(algorithm.name) } }),
    ...(known && algorithmDefaults(known)),
  };
  return differences(defaults, { ...config, ...algorithm.options, algorithm: algorithm.name })
    .filter(({ path }) => !["algorithm", "seed", "profile", "learningRate", "valueLearningRate"].includes(path))
    .map(({ path, b }) => `${path} ${typeof b === "string" ? b : JSON.stringify(b)}`)
    .concat(`learningRate ${config.learningRate.toPrecision(2)}`);
}

function render(state: ViewState, options: RenderOptions & { now: number }): string[] {
  const { colors } = options;
  const lines = ["", ...heading(state, options), ""];
  const { latest, run } = state;
  if (!latest)
    return [
      ...lines,
      colors.dim(run ? `step 1/${run.config.steps}: sampling the first conversations …` : "starting …"),
    ];
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

  const first = state.rewards[0];
  const last = metrics.reward;
  if (last !== undefined) {
    const gain = first === undefined ? undefined : last - first;
    const change =
      gain === undefined ? "" : (gain >= 0 ? colors.green : colors.red)(`${gain >= 0 ? "+" : ""}${number(gain)}`);
    lines.push(
      `${label("reward")}${colors.bold(number(last))} ± ${number(metrics.rewardStd ?? 0)}  ${colors.cyan(sparkline(state.rewards))}  ${change}`,
    );
  }
  const referenceKl = metrics.kl ?? metrics.referenceKl;
  const kl = referenceKl ?? metrics.approxKl;
  const numbers = joined(
    fact(referenceKl === undefined ? "step kl" : "kl", kl === undefined ? undefined : number(kl)),
    fact("entropy", metrics.entropy === undefined ? undefined : number(metrics.entropy)),
    fact("clip", metrics.clipFraction === undefined ? undefined : percent(metrics.clipFraction)),
    fact("grad", metrics.gradNorm === undefined ? undefined : number(metrics.gradNorm)),
    fact("reply", metrics.replyTokens === undefined ? undefined : `${metrics.replyTokens.toFixed(1)} tokens`),
  );
  if (numbers !== "") lines.push(`${label("learning")}${numbers}`);
  const total = Math.max(1, state.rolloutMs + state.updateMs);
  lines.push(
    `${label("speed")}${joined(`${quantity(timing.tokensPerSecond)} tokens/s`, fact("rollout", percent(state.rolloutMs / total)), fact("update", percent(state.updateMs / total)))}`,
  );
  const lost = state.failed.environment + state.failed.reward;
  const lostText = `${lost} of ${state.conversations}${lost > 0 ? ` (environment ${state.failed.environment}, reward ${state.failed.reward})` : ""}`;
  lines.push(`${label("failed")}${lost > 0 ? colors.yellow(lostText) : lostText}${colors.dim(" rollouts")}`);
  if (state.evaluation) {
    lines.push(
      `${label("held-out")}${interval(state.evaluation.reward)} ${colors.dim(`at step ${state.evaluation.step}`)}`,
    );
  }
  const verdict = state.verdicts.at(-1);
  if (verdict)
    lines.push(`${label("health")}${colors.yellow(verdict.kind)} ${colors.dim(`since step ${verdict.step}`)}`);
  return lines;
}

function plainLine(state: ViewState, now: number): string {
  const { metrics, timing, step, totalSteps } = state.latest!;
  const kl = metrics.kl ?? metrics.referenceKl ?? metrics.approxKl;
  const total = Math.max(1, timing.rolloutMs + timing.updateMs);
  return [
    `step ${step}/${totalSteps}`,
    metrics.reward === undefined ? undefined : `reward ${number(metrics.reward)} ± ${number(metrics.rewardStd ?? 0)}`,
    kl === undefined ? undefined : `kl ${number(kl)}`,
    metrics.entropy === undefined ? undefined : `entropy ${number(metrics.entropy)}`,
    metrics.clipFraction === undefined ? undefined : `clip ${percent(metrics.clipFraction)}`,
    `${Math.round(timing.tokensPerSecond)} tokens/s`,
    `rollout ${percent(timing.rolloutMs / total)}`,
    `failed ${state.failed.environment + state.failed.reward}`,
    `eta ${eta(state, now)}`,
  ]
    .filter((part) => part !== undefined)
    .join("  ");
}

function eta(state: ViewState, now: number): string {
  const { step, totalSteps } = state.latest!;
  const done = step - state.stepsBefore;
  return duration(((now - state.startedMs) / Math.max(1, done)) * (totalSteps - step));
}

function interval({ mean, low, high }: { mean: number; low: number; high: number }): string {
  return `${number(mean)} [${number(low)}, ${number(high)}]`;
}

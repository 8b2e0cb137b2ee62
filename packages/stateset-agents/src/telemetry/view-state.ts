/** What the live view has been told so far, and what follows from it. */
import type { TrajectoryGroup, Turn } from "../conversation/trajectory.ts";
import { lostBySource, type RolloutReport } from "../rollout/report.ts";
import type { RunProgress, RunStart, StepEnd } from "../run/callbacks.ts";
import type { DataEvaluation, EvaluationResult, StepMetrics, Verdict } from "../run/event.ts";
import { pathIn } from "../run/layout.ts";
import { readJsonLines } from "../run/log.ts";

/** A conversation of the last step. */
export interface SampledConversation {
  step: number;
  scenarioId: string;
  reward: number;
  turns: readonly Turn[];
}

export class ViewState {
  run: RunStart | undefined;
  /** Steps done when this process took over the run. */
  stepsBefore = 0;
  readonly rewards: number[] = [];
  readonly losses: number[] = [];
  latest: StepEnd | undefined;
  rolloutMs = 0;
  updateMs = 0;
  conversations = 0;
  readonly failed = { environment: 0, reward: 0 };
  /** The newest of each held-out set. */
  readonly evaluations = new Map<EvaluationResult["set"], EvaluationResult>();
  /** The first one that was seen of held-out data. */
  before: DataEvaluation | undefined;
  /** Those that hold, oldest first. */
  verdicts: Verdict[] = [];
  sample: SampledConversation | undefined;
  /** What is being done, and when it began: within a step, when that did. */
  now: (RunProgress & { sinceMs: number }) | undefined;
  /** When the first step of this process began, and when the step under way did. */
  #firstMs = 0;
  #stepMs = 0;

  begin(run: RunStart, nowMs: number): void {
    this.run = run;
    this.stepsBefore = run.resumedAfter ?? 0;
    this.#firstMs = nowMs;
    this.#stepMs = nowMs;
    // A run that begins anew, or goes on from a checkpoint, has only what was before.
    for (const curve of [this.rewards, this.losses]) curve.length = 0;
    this.latest = undefined;
    if (run.dir === undefined || run.resumedAfter === undefined) return;
    for (const metrics of readJsonLines<StepMetrics>(pathIn(run.dir, "metrics"))) {
      if (metrics.step > 0 && metrics.step <= run.resumedAfter) this.#note(metrics);
    }
  }

  beginStep(step: number, nowMs: number): void {
    // What came before the first step, such as an evaluation, says nothing of how long one takes.
    if (step === this.stepsBefore + 1) this.#firstMs = nowMs;
    this.#stepMs = nowMs;
    this.now = undefined;
  }

  progress(progress: RunProgress, nowMs: number): void {
    const same = this.now?.phase === progress.phase && this.now.step === progress.step;
    const within = progress.step > (this.latest?.step ?? this.stepsBefore);
    this.now = { ...progress, sinceMs: same ? this.now!.sinceMs : within ? this.#stepMs : nowMs };
  }

  rollouts(step: number, groups: readonly TrajectoryGroup[], report: RolloutReport): void {
    const lost = lostBySource(report);
    this.conversations += report.requested;
    this.failed.environment += report.failed.length + lost.environment + lost.agent;
    this.failed.reward += lost.reward;
    // The first one, whatever it earned: the best of many would always look good.
    const group = groups[0];
    const one = group?.trajectories[0];
    this.sample = one && { step, scenarioId: group.scenarioId, reward: one.reward.score, turns: one.turns };
  }

  endStep(event: StepEnd, nowMs: number): void {
    this.latest = event;
    this.#note(event.metrics);
    this.rolloutMs += event.timing.rolloutMs;
    this.updateMs += event.timing.updateMs;
    this.#stepMs = nowMs;
    this.now = undefined;
  }

  evaluated(event: EvaluationResult): void {
    this.evaluations.set(event.set, event);
    if (event.set === "held-out") this.before ??= event;
  }

  #note({ reward, loss }: StepMetrics): void {
    if (reward !== undefined) this.rewards.push(reward);
    if (loss !== undefined) this.losses.push(loss);
  }

  /** Of those this process has done. */
  get stepsDone(): number {
    return this.latest === undefined ? 0 : this.latest.step - this.stepsBefore;
  }

  /** Milliseconds that a step of this process has taken so far, with what follows it; undefined before its first is done. */
  get perStepMs(): number | undefined {
    return this.stepsDone === 0 ? undefined : (this.#stepMs - this.#firstMs) / this.stepsDone;
  }

  /** Milliseconds to the end of the last step, at that pace. */
  etaMs(nowMs: number): number | undefined {
    const { perStepMs, latest } = this;
    if (perStepMs === undefined) return undefined;
    const left = latest!.totalSteps - latest!.step;
    return left === 0 ? 0 : perStepMs * left - Math.min(perStepMs, nowMs - this.#stepMs);
  }
}

/** Where a number came from and where it is: its means over the first and the last quarter of the steps. One step is noise, so fewer than 8 say nothing. */
export function endsOf(values: readonly number[]): { first: number; last: number } | undefined {
  if (values.length < 8) return undefined;
  const steps = Math.floor(values.length / 4);
  const mean = (part: readonly number[]) => part.reduce((sum, value) => sum + value, 0) / steps;
  return { first: mean(values.slice(0, steps)), last: mean(values.slice(-steps)) };
}

import { z } from "zod";
import { parseOptions } from "../../options.ts";
import type { RewardEvaluation, Verdict } from "../../run/event.ts";
import { progressOf, type RewardRange } from "./progress.ts";
import {
  type DifficultyKind,
  difficultyFindings,
  difficultyOf,
  type ScenarioRecord,
  visitScenarios,
} from "./scenario-difficulty.ts";
import { readSignals, type StepObservation, type StepSignals } from "./signals.ts";
import { type Finding, type HeldOutReward, rules } from "./verdicts.ts";

const schema = z.strictObject({
  /** Steps in a row a finding must hold before it is said, so that one odd batch alarms nobody; what is beyond doubt is said at once. */
  patience: z.int().min(1).default(2),
  /** Steps of history that rules may look at, and steps that a finding must be gone before it is said again. */
  window: z.int().min(9).default(20),
});

export type DiagnosticsOptions = z.input<typeof schema>;

/** How a kind of finding stands. */
export interface FindingRecord {
  /** Steps in a row it has held. */
  streak: number;
  /** The step it was last seen at, once it has been said. */
  seen: number | null;
  /** With its latest numbers. */
  message: string;
}

export interface MonitorState {
  start: StepSignals | null;
  recent: StepSignals[];
  scenarios: Record<string, ScenarioRecord>;
  range: RewardRange | null;
  /** The best mean reward of several steps. */
  best: number | null;
  heldOut: { first: HeldOutReward; last: HeldOutReward } | null;
  findings: Partial<Record<Verdict["kind"], FindingRecord>>;
  verdicts: Verdict[];
}

const nothing: MonitorState = {
  start: null,
  recent: [],
  scenarios: {},
  range: null,
  best: null,
  heldOut: null,
  findings: {},
  verdicts: [],
};

/**
 * Watches the health of a run and says in words what is wrong. A pure function of what it was shown:
 * same steps, same verdicts. Its state is plain data.
 *
 * @example
 * const monitor = new DiagnosticsMonitor();
 * for (const verdict of monitor.observe({ step, metrics, groups })) console.log(verdict.message, verdict.advice);
 */
export class DiagnosticsMonitor {
  private readonly options: z.output<typeof schema>;
  private current: MonitorState = structuredClone(nothing);

  constructor(options: DiagnosticsOptions = {}) {
    this.options = parseOptions(schema, options, "DiagnosticsMonitor");
  }

  /**
   * Takes in a step and returns the verdicts that are new with it. Each kind is said once, and again only after it was gone for `window`
   * steps. A step without conversations says nothing of the policy and is passed over.
   */
  observe(observation: StepObservation): Verdict[] {
    return observation.groups.length === 0 ? [] : this.judge(readSignals(observation));
  }

  /** Takes in an evaluation on held-out scenarios; only those that select are compared, since the others are played twice a run. */
  observeEvaluation({ set, reward }: Pick<RewardEvaluation, "set" | "reward">): void {
    if (set !== "selection" || !Number.isFinite(reward.mean)) return;
    const { mean, low, high } = reward;
    const last = { mean, low, high };
    this.current = { ...this.current, heldOut: { first: this.current.heldOut?.first ?? last, last } };
  }

  private judge(now: StepSignals): Verdict[] {
    const { recent, best, heldOut } = this.current;
    const start = this.current.start ?? now;
    const { records, range } = visitScenarios(this.current.scenarios, this.current.range, now.scenarios);
    const progress = progressOf(now, start, recent, { best, range });
    const evidence = { now, start, recent, progress, range, heldOut };
    const found = rules.map((rule) => rule(evidence)).filter((finding) => finding !== undefined);
    // When hardly any group varies, it is the run that is ill, not each of its scenarios.
    // The same where all fail that was better before: scenarios are lost while the others do well.
    const ofScenarios = difficultyFindings(records, range).filter(
      ({ kind }) => kind !== "lost-scenarios" || progress.atBest,
    );
    if (!found.some(({ kind }) => kind === "no-signal")) found.push(...ofScenarios);
    const { findings, fresh } = this.count(found, now.step);
    this.current = {
      ...this.current,
      start,
      recent: [...recent, now].slice(-this.options.window),
      scenarios: records,
      range,
      best: Math.max(best ?? progress.level, progress.level),
      findings,
      verdicts: [...this.current.verdicts, ...fresh],
    };
    return fresh;
  }

  private count(found: readonly Finding[], step: number): { findings: MonitorState["findings"]; fresh: Verdict[] } {
    const { patience, window } = this.options;
    const findings: MonitorState["findings"] = {};
    for (const [kind, record] of Object.entries(this.current.findings)) {
      // What was said is remembered for as long as it must not be said again.
      if (record.seen !== null && step - record.seen <= window) {
        findings[kind as Verdict["kind"]] = { ...record, streak: 0 };
      }
    }
    const fresh: Verdict[] = [];
    for (const { sure, ...finding } of found) {
      const streak = Math.max((this.current.findings[finding.kind]?.streak ?? 0) + 1, sure ? patience : 1);
      const seen = findings[finding.kind]?.seen ?? null;
      const said = streak >= patience;
      if (said && seen === null) fresh.push({ ...finding, step });
      findings[finding.kind] = { streak, seen: said ? step : seen, message: finding.message };
    }
    return { findings, fresh };
  }

  /** Whether a finding of this kind holds now, and has for the required steps. */
  holds(kind: Verdict["kind"]): boolean {
    return (this.current.findings[kind]?.streak ?? 0) >= this.options.patience;
  }

  /** A finding in words, with the numbers of the step it was last found in. */
  says(kind: Verdict["kind"]): string | undefined {
    return this.current.findings[kind]?.message;
  }

  /** The scenarios that are too easy, too hard or lost, as it stands now, and how many visits in a row were all alike. */
  scenarios(kind: DifficultyKind): readonly { id: string; flat: number }[] {
    return difficultyOf(this.current.scenarios, this.current.range)[kind];
  }

  /** Everything said so far, oldest first. */
  get verdicts(): readonly Verdict[] {
    return this.current.verdicts;
  }

  /** The signals of the last step. */
  get latest(): StepSignals | undefined {
    return this.current.recent.at(-1);
  }

  state(): MonitorState {
    return structuredClone(this.current);
  }

  restore(state: Readonly<MonitorState>): void {
    this.current = structuredClone(state) as MonitorState;
  }
}

import { z } from "zod";
import { parseOptions } from "../../options.ts";
import type { Verdict } from "../../run/event.ts";
import { difficultyFindings, type RewardRange, type ScenarioRecord, visitScenarios } from "./scenario-difficulty.ts";
import { readSignals, type StepObservation, type StepSignals } from "./signals.ts";
import { type Finding, rules } from "./verdicts.ts";

const schema = z.strictObject({
  /** Steps in a row a finding must hold before it is said; critical ones included, so that one odd batch alarms nobody. */
  patience: z.int().min(1).default(2),
  /** Steps of history that rules may look at. */
  window: z.int().min(5).default(20),
});

export type DiagnosticsOptions = z.input<typeof schema>;

export interface MonitorState {
  start: StepSignals | null;
  recent: StepSignals[];
  scenarios: Record<string, ScenarioRecord>;
  range: RewardRange | null;
  /** Steps in a row each finding has held, by kind and scenario. */
  streaks: Record<string, number>;
  verdicts: Verdict[];
}

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
  private current: MonitorState = { start: null, recent: [], scenarios: {}, range: null, streaks: {}, verdicts: [] };

  constructor(options: DiagnosticsOptions = {}) {
    this.options = parseOptions(schema, options, "DiagnosticsMonitor");
  }

  /** Takes in a step and returns the verdicts that are new with it. A verdict is said once, and again only after it cleared. */
  observe(observation: StepObservation): Verdict[] {
    const now = readSignals(observation);
    const { recent } = this.current;
    const start = this.current.start ?? now;
    const { records, range } = visitScenarios(this.current.scenarios, this.current.range, now);
    const findings: Finding[] = rules
      .map((rule) => rule({ now, start, recent }))
      .filter((finding) => finding !== undefined);
    // When hardly any group varies, it is the run that is ill, not each of its scenarios.
    if (!findings.some(({ kind }) => kind === "no-signal")) findings.push(...difficultyFindings(records, range));
    const streaks: Record<string, number> = {};
    const fresh: Verdict[] = [];
    for (const finding of findings) {
      const key = keyOf(finding);
      const streak = (this.current.streaks[key] ?? 0) + 1;
      streaks[key] = streak;
      // Scenario findings have waited for several visits already.
      const needed = finding.scenarioId === undefined ? this.options.patience : 1;
      if (streak === needed) fresh.push({ ...finding, step: now.step });
    }
    this.current = {
      start,
      recent: [...recent, now].slice(-this.options.window),
      scenarios: records,
      range,
      streaks,
      verdicts: [...this.current.verdicts, ...fresh],
    };
    return fresh;
  }

  /** Whether a finding of this kind holds now, and has for the required steps. */
  holds(kind: Verdict["kind"], scenarioId?: string): boolean {
    const needed = scenarioId === undefined ? this.options.patience : 1;
    return (this.current.streaks[keyOf({ kind, ...(scenarioId === undefined ? {} : { scenarioId }) })] ?? 0) >= needed;
  }

  /** Everything said so far, oldest first. */
  get verdicts(): readonly Verdict[] {
    return this.current.verdicts;
  }

  /** The signals of the last step. */
  get latest(): StepSignals | undefined {
    return this.current.recent.at(-1);
  }

  get healthy(): boolean {
    return !(["collapse", "divergence", "reward-hacking", "repetition"] as const).some((kind) => this.holds(kind));
  }

  state(): MonitorState {
    return structuredClone(this.current);
  }

  restore(state: Readonly<MonitorState>): void {
    this.current = structuredClone(state) as MonitorState;
  }
}

function keyOf({ kind, scenarioId }: Pick<Finding, "kind" | "scenarioId">): string {
  return scenarioId === undefined ? kind : `${kind}:${scenarioId}`;
}

import { z } from "zod";
import { parseOptions } from "../options.ts";
import type { Adjustment, VerdictKind } from "../run/event.ts";
import type { TrainingCallbacks } from "./callbacks.ts";
import type { TrainingControls } from "./controls.ts";
import { DiagnosticsMonitor, type DiagnosticsOptions, type MonitorState } from "./diagnostics/monitor.ts";
import type { StepSignals } from "./diagnostics/signals.ts";

const schema = z.strictObject({
  /** Steps that an action is given to show its effect before the next of its kind. */
  cooldown: z.int().min(1).default(3),
  /** The learning rate never goes below this share of the scheduled one. */
  minLearningRateScale: z
    .number()
    .positive()
    .max(1)
    .default(1 / 64),
  maxKlCoefficient: z.number().positive().default(1),
  maxTemperature: z.number().positive().default(1.5),
  minScenarioWeight: z.number().positive().max(1).default(0.1),
});

export type AutoAdjustOptions = z.input<typeof schema>;
type Limits = z.output<typeof schema>;

interface State {
  monitor: MonitorState;
  adjustments: Adjustment[];
  /** How the run stood when something was last done about its health. */
  lastActed: StepSignals | null;
}

export interface AutoAdjust extends TrainingCallbacks {
  readonly monitor: DiagnosticsMonitor;
  readonly adjustments: readonly Adjustment[];
}

/**
 * Acts on what the monitor says: learning rate, KL coefficient, temperature and scenario mix, within limits, each action
 * told with its reason (onVerdict, onAdjustment, events.jsonl). Deterministic, and its state is in every checkpoint, so a resumed run makes the same decisions.
 *
 * @example train({ …, callbacks: [autoAdjust()] })
 */
export function autoAdjust(options: AutoAdjustOptions & { diagnostics?: DiagnosticsOptions } = {}): AutoAdjust {
  const { diagnostics, ...rest } = options;
  const limits = parseOptions(schema, rest, "autoAdjust");
  const monitor = new DiagnosticsMonitor(diagnostics);
  let adjustments: Adjustment[] = [];
  let lastActed: StepSignals | null = null;

  return {
    name: "auto-adjust",
    adjustsKl: true,
    monitor,
    get adjustments() {
      return adjustments;
    },
    async onStepEnd({ step, metrics, groups, controls, tell }) {
      const before = adjustments.length;
      const fresh = monitor.observe({ step, metrics, groups });
      const record = (adjustment: Adjustment) => {
        adjustments = [...adjustments, adjustment];
      };
      const now = monitor.latest!;
      const trouble = urgency.find((kind) => monitor.holds(kind));
      if (trouble && (lastActed === null || step - lastActed.step >= limits.cooldown)) {
        const { message } = monitor.verdicts.findLast((verdict) => verdict.kind === trouble)!;
        // A run that is on its way back needs time, not another push.
        if (lastActed === null || !recovering(now, lastActed)) {
          act(trouble, controls, limits, (setting, from, to) => record({ step, setting, from, to, reason: message }));
        }
        lastActed = now;
      }
      for (const verdict of fresh) {
        if (verdict.scenarioId !== undefined) {
          reweigh(controls, verdict.scenarioId, verdict.message, limits, (change) => record({ step, ...change }));
        }
      }
      restoreWeights(controls, monitor, (change) => record({ step, ...change }));
      for (const verdict of fresh) await tell({ type: "verdict", ...verdict });
      for (const adjustment of adjustments.slice(before)) await tell({ type: "adjustment", ...adjustment });
    },
    state(): State {
      return { monitor: monitor.state(), adjustments, lastActed };
    },
    restore(state) {
      const kept = state as State;
      monitor.restore(kept.monitor);
      adjustments = [...kept.adjustments];
      lastActed = kept.lastActed;
    },
  };
}

/** Troubles that are acted on, the one that explains the others first: one cause, one action. */
const urgency = [
  "collapse",
  "reward-hacking",
  "divergence",
  "repetition",
  "no-signal",
] as const satisfies VerdictKind[];

/** Nearer to the model it started from, or less repetitive, than when something was last done. */
function recovering(now: StepSignals, then: StepSignals): boolean {
  const nearer = now.kl !== null && then.kl !== null && now.kl < 0.9 * then.kl;
  return nearer || now.repeatedTextShare < then.repeatedTextShare - 0.05;
}

type Change = (setting: Adjustment["setting"], from: number, to: number) => void;

function act(kind: VerdictKind, controls: TrainingControls, limits: Limits, change: Change): void {
  const slower = (factor: number) => {
    const from = controls.learningRateScale;
    controls.learningRateScale = Math.max(limits.minLearningRateScale, from * factor);
    if (controls.learningRateScale !== from) change("learningRateScale", from, controls.learningRateScale);
  };
  const closer = (floor: number, factor: number) => {
    const from = controls.klCoefficient;
    controls.klCoefficient = Math.min(limits.maxKlCoefficient, Math.max(floor, from * factor));
    if (controls.klCoefficient !== from) change("klCoefficient", from, controls.klCoefficient);
  };
  const warmer = (factor: number) => {
    const from = controls.temperature;
    const to = Math.min(limits.maxTemperature, from * factor);
    if (to <= from) return;
    controls.temperature = to;
    change("temperature", from, to);
  };
  switch (kind) {
    case "divergence":
      slower(0.3);
      closer(0.05, 2);
      return;
    case "collapse":
      slower(0.3);
      closer(0.05, 2);
      warmer(1.1);
      return;
    // The reward pulls the wrong way, so the leash must be as strong as it; the rate is what carries the policy back.
    case "reward-hacking":
    case "repetition":
      closer(0.2, 3);
      return;
    case "no-signal":
      warmer(1.1);
      return;
    default:
  }
}

function reweigh(
  controls: TrainingControls,
  id: string,
  reason: string,
  limits: Limits,
  record: (change: Omit<Adjustment, "step">) => void,
): void {
  const from = controls.scenarioWeights[id] ?? 1;
  const to = Math.max(limits.minScenarioWeight, from * 0.5);
  if (to === from) return;
  controls.scenarioWeights = { ...controls.scenarioWeights, [id]: to };
  record({ setting: `scenarioWeights.${id}`, from, to, reason });
}

/** A scenario that varies again gets its full share back. */
function restoreWeights(
  controls: TrainingControls,
  monitor: DiagnosticsMonitor,
  record: (change: Omit<Adjustment, "step">) => void,
): void {
  for (const { id, spread } of monitor.latest?.scenarios ?? []) {
    const from = controls.scenarioWeights[id];
    if (from === undefined || from >= 1 || spread < 1e-9) continue;
    controls.scenarioWeights = { ...controls.scenarioWeights, [id]: 1 };
    record({ setting: `scenarioWeights.${id}`, from, to: 1, reason: `Scenario "${id}" has differing rewards again.` });
  }
}

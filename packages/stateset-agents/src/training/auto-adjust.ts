import { z } from "zod";
import { parseOptions } from "../options.ts";
import type { Adjustment, VerdictKind } from "../run/event.ts";
import type { TrainingCallbacks } from "./callbacks.ts";
import type { TrainingControls } from "./controls.ts";
import { DiagnosticsMonitor, type DiagnosticsOptions, type MonitorState } from "./diagnostics/monitor.ts";
import { type DifficultyKind, flatVisits } from "./diagnostics/scenario-difficulty.ts";
import type { StepSignals } from "./diagnostics/signals.ts";
import { leap } from "./diagnostics/verdicts.ts";

const schema = z.strictObject({
  /** Steps that an action is given to show its effect before the next of its kind. */
  cooldown: z.int().min(1).default(3),
  /** The learning rate never goes below this share of the scheduled one. */
  minLearningRateScale: z
    .number()
    .positive()
    .max(1)
    .default(1 / 64),
  maxKlCoefficient: z.number().positive().default(2),
  maxTemperature: z.number().positive().default(1.5),
  minScenarioWeight: z.number().positive().max(1).default(0.1),
});

export type AutoAdjustOptions = z.input<typeof schema>;
type Limits = z.output<typeof schema>;

interface State {
  monitor: MonitorState;
  adjustments: Adjustment[];
  /** How the run stood when its health was last judged: something was done, or it was found on its way back. */
  lastJudged: StepSignals | null;
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
  const { diagnostics, ...limits } = parseOptions(
    schema.extend({ diagnostics: z.custom<DiagnosticsOptions>().optional() }),
    options,
    "autoAdjust",
  );
  const monitor = new DiagnosticsMonitor(diagnostics);
  let adjustments: Adjustment[] = [];
  let lastJudged: StepSignals | null = null;

  return {
    name: "auto-adjust",
    adjustsKl: true,
    monitor,
    get adjustments() {
      return adjustments;
    },
    async onStepEnd({ tell, controls, ...observation }) {
      const { step } = observation;
      const before = adjustments.length;
      const fresh = monitor.observe(observation);
      const now = monitor.latest;
      // Only a step with conversations says anything.
      if (now?.step !== step) return;
      const record = (adjustment: Adjustment) => {
        adjustments = [...adjustments, adjustment];
      };
      // A leap undoes whatever the last action was to bring about, so it comes first and is answered at once.
      const leapt = isLeap(now, lastJudged);
      const trouble = leapt ? "divergence" : urgency.find((kind) => monitor.holds(kind));
      const rested = lastJudged === null || step - lastJudged.step >= limits.cooldown;
      if (trouble && (rested || leapt)) {
        // A run that is on its way back needs time, not another push.
        if (lastJudged === null || leapt || !recovering(now, lastJudged)) {
          const reason = monitor.says(trouble) ?? "";
          act(trouble, now, controls, limits, (setting, from, to) => record({ step, setting, from, to, reason }));
        }
        lastJudged = now;
      }
      reweigh(controls, monitor, limits, (change) => record({ step, ...change }));
      for (const verdict of fresh) await tell({ type: "verdict", ...verdict });
      for (const adjustment of adjustments.slice(before)) await tell({ type: "adjustment", ...adjustment });
    },
    onEvaluation: (evaluation) => monitor.observeEvaluation(evaluation),
    state(): State {
      return { monitor: monitor.state(), adjustments, lastJudged };
    },
    restore(state) {
      const kept = state as State;
      monitor.restore(kept.monitor);
      adjustments = [...kept.adjustments];
      lastJudged = kept.lastJudged ?? null;
    },
  };
}

/** Troubles that are acted on, the one that explains the others first: one cause, one action. */
const urgency = [
  "noise",
  "collapse",
  "reward-hacking",
  "divergence",
  "lost-scenarios",
  "repetition",
  "no-signal",
] as const satisfies VerdictKind[];

/** One step that took the policy where no step should: away, not back to the reference, which may well take large steps. */
function isLeap({ approxKl, undone, kl }: StepSignals, lastJudged: StepSignals | null): boolean {
  const away = undone || kl === null || (lastJudged !== null && lastJudged.kl !== null && kl > lastJudged.kl);
  return undone || (approxKl !== null && approxKl > leap && away);
}

/** Nearer to the model it started from, or less repetitive, than when it was last judged. */
function recovering(now: StepSignals, then: StepSignals): boolean {
  const nearer = now.kl !== null && then.kl !== null && now.kl < 0.9 * then.kl;
  return nearer || now.repeatedTextShare < then.repeatedTextShare - 0.05;
}

/** What a step may well move the policy by, in nats a token. */
const usualMove = 0.02;

type Change = (setting: Adjustment["setting"], from: number, to: number) => void;

function act(
  kind: VerdictKind,
  { approxKl, undone }: StepSignals,
  controls: TrainingControls,
  limits: Limits,
  change: Change,
): void {
  const set = (setting: "learningRateScale" | "klCoefficient" | "temperature", to: number) => {
    const from = controls[setting];
    if (to === from) return;
    controls[setting] = to;
    change(setting, from, to);
  };
  // The KL of a step goes with the square of its length.
  const needed = approxKl === null ? 1 : Math.sqrt(usualMove / approxKl);
  const slower = (factor: number) =>
    set(
      "learningRateScale",
      Math.max(limits.minLearningRateScale, controls.learningRateScale * Math.min(factor, needed)),
    );
  const closer = (floor: number, factor: number) =>
    set("klCoefficient", Math.min(limits.maxKlCoefficient, Math.max(floor, controls.klCoefficient * factor)));
  const warmer = (factor: number) =>
    set("temperature", Math.max(controls.temperature, Math.min(limits.maxTemperature, controls.temperature * factor)));
  switch (kind) {
    case "noise":
      if (controls.temperature > 1) {
        set("temperature", 1);
        break;
      }
      slower(0.3);
      closer(0.05, 2);
      break;
    case "divergence":
      slower(0.3);
      // A step that was taken back has left nothing to be brought back from.
      if (!undone) closer(approxKl !== null && approxKl > leap ? 0.5 : 0.05, 2);
      break;
    case "collapse":
      slower(0.3);
      closer(0.05, 2);
      warmer(1.1);
      break;
    // The reward pulls the wrong way, so the leash must be as strong as it; the rate is what carries the policy back.
    case "reward-hacking":
    case "repetition":
      closer(0.5, 2);
      break;
    // Nothing teaches a scenario that always fails, except the reference, under which it did not.
    case "lost-scenarios":
      slower(0.5);
      closer(0.05, 2);
      break;
    case "no-signal":
      warmer(1.1);
      break;
    default:
  }
}

/** Too easy or too hard: half as often for every three visits that showed it. Lost: twice as often. Back to its share when neither. */
function reweigh(
  controls: TrainingControls,
  monitor: DiagnosticsMonitor,
  limits: Limits,
  record: (change: Omit<Adjustment, "step">) => void,
): void {
  // When hardly any group varies, it is the run that is ill, not each of its scenarios.
  if (monitor.holds("no-signal")) return;
  const visited = new Set(monitor.latest?.scenarios.map(({ id }) => id));
  const set = (id: string, to: number, reason: string) => {
    const from = controls.scenarioWeights[id] ?? 1;
    if (to === from) return;
    const { [id]: _, ...rest } = controls.scenarioWeights;
    controls.scenarioWeights = to === 1 ? rest : { ...rest, [id]: to };
    record({ setting: `scenarioWeights.${id}`, from, to, reason });
  };
  const flatOf = (kind: DifficultyKind) => new Map(monitor.scenarios(kind).map(({ id, flat }) => [id, flat]));
  const [easy, hard, lost] = [flatOf("too-easy"), flatOf("too-hard"), flatOf("lost-scenarios")];
  for (const id of visited) {
    const flat = easy.get(id) ?? hard.get(id) ?? 0;
    const rarer = Math.max(limits.minScenarioWeight, 0.5 ** Math.floor(flat / flatVisits));
    if (lost.has(id) && monitor.holds("lost-scenarios"))
      set(id, 2, `Scenario "${id}" used to succeed and now always fails.`);
    else if (lost.has(id)) continue;
    else if (easy.has(id)) set(id, rarer, `Scenario "${id}" always gets the best reward.`);
    else if (hard.has(id)) set(id, rarer, `Scenario "${id}" always gets the worst reward.`);
    else set(id, 1, `Scenario "${id}" has differing rewards again.`);
  }
}

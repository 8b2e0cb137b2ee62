import { withGrace } from "../abort.ts";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import { messageOf } from "../error.ts";
import type { UpdateEvent } from "../learning/learn.ts";
import type { RolloutReport } from "../rollout/report.ts";
import type { EvaluationResult, RunEnd, StepMetrics, StepTiming, TrainingWarning } from "../run/events.ts";
import type { TrainingConfig } from "./config.ts";
import type { TrainingControls } from "./controls.ts";

export interface RunStart {
  id: string;
  /** Undefined when the run keeps no files. */
  dir: string | undefined;
  config: TrainingConfig;
  algorithm: { name: string; options: Readonly<Record<string, unknown>> };
  /** Steps done before, when the run was resumed. */
  resumedAfter: number | undefined;
}

export interface StepEnd {
  step: number;
  totalSteps: number;
  metrics: StepMetrics;
  timing: StepTiming;
  groups: readonly TrajectoryGroup[];
  report: RolloutReport;
  /** Changes take effect with the next step and are kept in checkpoints. */
  controls: TrainingControls;
}

/**
 * What a run tells its onlookers. All are optional, all are awaited. One that throws is reported as a warning and never ends the run.
 * Steps are counted from 1.
 */
export interface TrainingCallbacks {
  onStart?(run: RunStart): void | Promise<void>;
  onStepStart?(event: { step: number; totalSteps: number; learningRate: number }): void | Promise<void>;
  onRollouts?(event: { step: number; groups: readonly TrajectoryGroup[]; report: RolloutReport }): void | Promise<void>;
  onUpdate?(event: UpdateEvent & { step: number }): void | Promise<void>;
  onStepEnd?(event: StepEnd): void | Promise<void>;
  onEvaluation?(event: EvaluationResult): void | Promise<void>;
  onCheckpoint?(event: { step: number; dir: string; best: boolean }): void | Promise<void>;
  onWarning?(warning: TrainingWarning): void | Promise<void>;
  onEnd?(end: RunEnd): void | Promise<void>;
  /** Names the entry in checkpoints, for callbacks that have a state. */
  readonly name?: string;
  /** Set by callbacks that may raise `controls.klCoefficient` from 0: the run then keeps a reference from its start. */
  readonly adjustsKl?: true;
  /** Plain data that must survive a resume for the run to go on bit for bit. */
  state?(): unknown;
  restore?(state: unknown): void;
}

type EventName = Exclude<keyof TrainingCallbacks, "name" | "state" | "restore" | "adjustsKl">;
type EventOf<K extends EventName> = Parameters<NonNullable<TrainingCallbacks[K]>>[0];

/** Several callbacks as one `emit`, whose failures become warnings. */
export interface Emitter {
  add(callback: TrainingCallbacks): void;
  emit<K extends EventName>(name: K, event: EventOf<K>): Promise<void>;
  warn(warning: TrainingWarning): Promise<void>;
  /** States by name, for a checkpoint. */
  states(): Record<string, unknown>;
  restore(states: Readonly<Record<string, unknown>>): void;
}

/** How long a callback may take once the run was told to stop. */
const lastWordsMs = 5000;

/** `signal` is the run's: once it has fired, a callback that hangs is not waited for. */
export function createEmitter(
  initial: readonly TrainingCallbacks[],
  stepNow: () => number,
  signal: AbortSignal | undefined,
): Emitter {
  const callbacks = [...initial];
  const stateful = () => callbacks.filter((callback) => callback.state !== undefined);
  const key = (callback: TrainingCallbacks, index: number) => callback.name ?? `callback-${index}`;
  const emit: Emitter["emit"] = async (name, event) => {
    for (const callback of callbacks) {
      const call = callback[name] as ((event: unknown) => unknown) | undefined;
      if (!call) continue;
      try {
        await withGrace(() => call.call(callback, event), signal, lastWordsMs);
      } catch (error) {
        if (name === "onWarning") continue;
        await warn({
          step: stepNow(),
          kind: "callback-failed",
          message: `A callback's ${name} threw: ${messageOf(error)}`,
        });
      }
    }
  };
  const warn: Emitter["warn"] = (warning) => emit("onWarning", warning);
  return {
    add: (callback) => void callbacks.push(callback),
    emit,
    warn,
    states: () => Object.fromEntries(stateful().map((callback, index) => [key(callback, index), callback.state!()])),
    restore(states) {
      stateful().forEach((callback, index) => {
        const state = states[key(callback, index)];
        if (state !== undefined) callback.restore?.(state);
      });
    },
  };
}

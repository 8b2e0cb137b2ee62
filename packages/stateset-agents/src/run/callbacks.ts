import { withGrace } from "../abort.ts";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import { messageOf } from "../error.ts";
import type { UpdateEvent } from "../learning/learn.ts";
import type { RolloutReport } from "../rollout/report.ts";
import type { RunConfig } from "./config.ts";
import type {
  Adjustment,
  EvaluationResult,
  EventType,
  RunEnd,
  RunEvent,
  RunWarning,
  StepMetrics,
  StepTiming,
  Verdict,
} from "./event.ts";

export interface RunStart {
  id: string;
  /** Undefined when the run keeps no files. */
  dir: string | undefined;
  /** What learns: an algorithm of train(), "sft", "dpo", … */
  learner: string;
  /** Steps to be done in all. */
  steps: number;
  /** Every setting, and what each would be had nothing been said. */
  settings: Readonly<Record<string, unknown>>;
  defaults: Readonly<Record<string, unknown>>;
  /** What config.json holds. */
  saved: RunConfig;
  /** Steps done before, when the run was resumed. */
  resumedAfter: number | undefined;
}

/** Ends the run after this step as "stopped-early", with its last evaluation and `final/`; it can be taken up again. */
export type StopRun = (reason: string) => void;

export interface StepEnd {
  step: number;
  totalSteps: number;
  metrics: StepMetrics;
  timing: StepTiming;
  stop: StopRun;
  /** Writes what a callback found or did among the run's events, and tells the other callbacks. */
  tell(said: ({ type: "verdict" } & Verdict) | ({ type: "adjustment" } & Adjustment)): Promise<void>;
}

/** Where a run is inside a step. */
export interface RunProgress {
  /** The step under way, or the one that is being evaluated or saved; 0 before the first. */
  step: number;
  totalSteps: number;
  phase: "sampling" | "rewarding" | "learning" | "evaluating" | "saving";
  /** Conversations done of those asked for, and the tokens sampled so far: while there are conversations. */
  done?: number;
  of?: number;
  tokens?: number;
}

type Told<E> = (event: E) => void | Promise<void>;

/**
 * What a run tells its onlookers. All are optional, all are awaited. One that throws is reported as a warning and never ends the run.
 * Steps are counted from 1. `train()` tells more: see TrainingCallbacks.
 */
export interface RunCallbacks {
  /** Everything, as it stands in events.jsonl. */
  onEvent?: Told<RunEvent>;
  onStart?: Told<RunStart>;
  onStepStart?: Told<{ step: number; totalSteps: number; learningRate: number }>;
  /** Many times a step, between the others. Not awaited: it must return at once. */
  onProgress?: (progress: RunProgress) => void;
  onRollouts?: Told<{ step: number; groups: readonly TrajectoryGroup[]; report: RolloutReport }>;
  onUpdate?: Told<UpdateEvent & { step: number }>;
  onStepEnd?: Told<StepEnd>;
  onEvaluation?: Told<EvaluationResult & { stop: StopRun }>;
  onCheckpoint?: Told<{ step: number; dir: string; best: boolean }>;
  onWarning?: Told<RunWarning>;
  onVerdict?: Told<Verdict>;
  onAdjustment?: Told<Adjustment>;
  onEnd?: Told<RunEnd>;
  /** Names the entry in checkpoints, for callbacks that have a state. */
  readonly name?: string;
  /**
   * Set by callbacks that may raise `controls.klCoefficient` from 0: the run then keeps a reference from its start, estimates the KL by k2
   * unless told otherwise, and takes back a step that moved the policy by more than 1 nat a token.
   */
  readonly adjustsKl?: true;
  /** Plain data that must survive a resume for the run to go on bit for bit. */
  state?(): unknown;
  restore?(state: unknown): void;
}

/** Callbacks of any learner, whatever each of them is told beside what all are. */
export type AnyCallbacks = Pick<RunCallbacks, "name" | "adjustsKl" | "state" | "restore"> & {
  [N in CallbackName]?: ((event: never) => void | Promise<void>) | undefined;
} & { onProgress?: ((progress: RunProgress) => void) | undefined };

export const callbackOf = {
  start: "onStart",
  rollouts: "onRollouts",
  update: "onUpdate",
  step: "onStepEnd",
  evaluation: "onEvaluation",
  checkpoint: "onCheckpoint",
  warning: "onWarning",
  verdict: "onVerdict",
  adjustment: "onAdjustment",
  end: "onEnd",
} as const satisfies Record<EventType, keyof RunCallbacks>;

export type CallbackName = (typeof callbackOf)[EventType] | "onStepStart" | "onEvent";

/** Several callbacks as one whose failures are told, never thrown. */
export interface Emitter {
  add(callback: AnyCallbacks): void;
  emit(name: CallbackName, event: object): Promise<void>;
  /** Told at once; one that throws is left out from then on. */
  progress(progress: RunProgress): void;
  /** States by name, for a checkpoint. */
  states(): Promise<Record<string, unknown>>;
  restore(states: Readonly<Record<string, unknown>>): Promise<void>;
}

/** How long a callback may take once the run was told to stop. */
const lastWordsMs = 5000;

/** `signal` is the run's: once it has fired, a callback that hangs is not waited for. */
export function createEmitter(
  initial: readonly AnyCallbacks[],
  signal: AbortSignal | undefined,
  onFailed: (message: string) => Promise<void>,
): Emitter {
  const callbacks = [...initial];
  const deaf = new Set<AnyCallbacks>();
  const stateful = () => callbacks.filter((callback) => callback.state !== undefined);
  const key = (callback: AnyCallbacks, index: number) => callback.name ?? `callback-${index}`;
  return {
    add: (callback) => void callbacks.push(callback),
    async emit(name, event) {
      for (const callback of callbacks) {
        const call = callback[name] as ((event: object) => unknown) | undefined;
        if (!call) continue;
        try {
          await withGrace(() => call.call(callback, event), signal, lastWordsMs);
        } catch (error) {
          // Of a callback that cannot even be told of a warning, nothing more is said.
          if (name !== "onWarning" && name !== "onEvent") {
            await onFailed(`A callback's ${name} threw: ${messageOf(error)}`);
          }
        }
      }
    },
    progress(progress) {
      for (const callback of callbacks) {
        if (!callback.onProgress || deaf.has(callback)) continue;
        try {
          callback.onProgress(progress);
        } catch (error) {
          deaf.add(callback);
          void onFailed(`A callback's onProgress threw: ${messageOf(error)}. It is no longer called.`);
        }
      }
    },
    async states() {
      const states: Record<string, unknown> = {};
      for (const [index, callback] of stateful().entries()) {
        try {
          const state = callback.state!();
          // What JSON cannot hold would fail the checkpoint.
          JSON.stringify(state);
          states[key(callback, index)] = state;
        } catch (error) {
          await onFailed(`A callback's state could not be kept: ${messageOf(error)}`);
        }
      }
      return states;
    },
    async restore(states) {
      for (const [index, callback] of stateful().entries()) {
        const state = states[key(callback, index)];
        if (state === undefined) continue;
        try {
          callback.restore?.(state);
        } catch (error) {
          await onFailed(`A callback's restore threw: ${messageOf(error)}`);
        }
      }
    },
  };
}

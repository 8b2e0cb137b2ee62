import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import type { RolloutReport } from "../rollout/report.ts";
import type { RunCallbacks, RunStart, StepEnd, StopRun } from "../run/callbacks.ts";
import type { RewardEvaluation } from "../run/event.ts";
import type { TrainingConfig } from "./config.ts";
import type { TrainingControls } from "./controls.ts";

export interface TrainingStart extends RunStart {
  config: TrainingConfig;
  algorithm: { name: string; options: Readonly<Record<string, unknown>> };
}

export interface TrainingStepEnd extends StepEnd {
  groups: readonly TrajectoryGroup[];
  report: RolloutReport;
  /** Tokens the policy can choose from. */
  vocabulary: number;
  /** Changes take effect with the next step and are kept in checkpoints. */
  controls: TrainingControls;
}

/** What train() tells its onlookers. Callbacks for every kind of run (`RunCallbacks`) fit as well. */
export interface TrainingCallbacks extends Omit<RunCallbacks, "onStart" | "onStepEnd" | "onEvaluation"> {
  onStart?: (run: TrainingStart) => void | Promise<void>;
  onStepEnd?: (event: TrainingStepEnd) => void | Promise<void>;
  onEvaluation?: (event: RewardEvaluation & { stop: StopRun }) => void | Promise<void>;
}

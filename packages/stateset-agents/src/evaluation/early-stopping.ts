import { z } from "zod";
import { counted } from "../counted.ts";
import { parseOptions } from "../options.ts";

export const earlyStoppingSchema = z.strictObject({
  patience: z.int().min(1).default(5).describe("Evaluations without an improvement before the run stops."),
  minDelta: z.number().min(0).default(0).describe("An evaluation must beat the best by more than this to count."),
  target: z.number().optional().describe("Stop at once when the score reaches this."),
});

export type EarlyStoppingOptions = z.input<typeof earlyStoppingSchema>;

export interface EarlyStoppingState {
  best: number | null;
  bestStep: number;
  /** Evaluations since the best. */
  waited: number;
}

export interface StopDecision {
  stop: boolean;
  improved: boolean;
  /** In words, when `stop`. */
  reason?: string;
}

/** Decides after each evaluation whether to go on. Its state is plain data, so a checkpoint can hold it. */
export class EarlyStopping {
  private readonly options: z.output<typeof earlyStoppingSchema>;
  private current: EarlyStoppingState = { best: null, bestStep: -1, waited: 0 };

  constructor(options: EarlyStoppingOptions = {}) {
    this.options = parseOptions(earlyStoppingSchema, options, "earlyStopping");
  }

  /** `what` is counted, for the reason. */
  observe(step: number, score: number, what: "evaluation" | "step" = "evaluation"): StopDecision {
    const { patience, minDelta, target } = this.options;
    const { best } = this.current;
    const improved = Number.isFinite(score) && (best === null || score > best + minDelta);
    this.current = improved
      ? { best: score, bestStep: step, waited: 0 }
      : { ...this.current, waited: this.current.waited + 1 };
    if (target !== undefined && score >= target) {
      return { stop: true, improved, reason: `The score ${score.toFixed(4)} reached the target ${target}.` };
    }
    if (this.current.waited >= patience) {
      const at =
        this.current.best === null ? "" : ` (${this.current.best.toFixed(4)} at step ${this.current.bestStep})`;
      return {
        stop: true,
        improved,
        reason: `No improvement over the best score${at} in ${counted(patience, what)}.`,
      };
    }
    return { stop: false, improved };
  }

  state(): EarlyStoppingState {
    return { ...this.current };
  }

  restore(state: Readonly<EarlyStoppingState>): void {
    this.current = { ...state };
  }
}

import type { z } from "zod";
import type { Agent } from "../agent/agent.ts";
import type { schemas } from "../algorithm/options.ts";
import { StatesetError } from "../error.ts";
import type { TrainingConfig, TrainingOptions } from "./config.ts";
import { type TrainResult, train } from "./train.ts";
import type { TrainOptions, TrainParts } from "./train-options.ts";

type GSPOAlgorithmOptions = z.input<(typeof schemas)["gspo"]>;

/** Options of a GSPO run: those of every run, and GSPO's own (its clip is a thousand times tighter than GRPO's). */
export type GSPOConfig = TrainingOptions & GSPOAlgorithmOptions;

export const GSPOConfig = {
  /**
   * A GSPO configuration from one made for another algorithm: what every run has is kept (rates, steps, seeds, limits, …), while
   * GSPO's own defaults stay in force (group size 4, its clip), unless `overrides` say otherwise.
   */
  fromTrainingConfig(base: TrainingOptions | TrainingConfig, overrides: Partial<GSPOConfig> = {}): GSPOConfig {
    const { groupSize: _, ...shared } = base;
    const { profile: __, ...options } = shared as typeof shared & { profile?: unknown };
    return { ...options, ...overrides, algorithm: "gspo" };
  },
};

/** train() with GSPO (Zheng et al. 2025): ratios and clipping per sequence, steadier on long replies. */
export function trainWithGSPO<A extends Agent>(
  options: TrainParts<A> &
    TrainingOptions &
    Omit<GSPOAlgorithmOptions, "algorithm"> & { algorithm?: "gspo" | "gspo-token" },
): Promise<TrainResult<A>> {
  const algorithm = options.algorithm ?? "gspo";
  if (algorithm !== "gspo" && algorithm !== "gspo-token") {
    throw new StatesetError("INVALID_OPTION", `trainWithGSPO() cannot run the algorithm "${String(algorithm)}".`, {
      hint: 'Valid: "gspo", "gspo-token"; use train() for others.',
    });
  }
  return train({ ...options, algorithm } as TrainOptions<A>);
}

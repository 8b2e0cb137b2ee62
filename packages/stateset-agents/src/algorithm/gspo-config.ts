import type { z } from "zod";
import { resolveAlgorithm, splitAlgorithmConfig } from "./algorithms.ts";
import { defaultGroupSizes, type schemas } from "./options.ts";

type GspoOptions = z.output<typeof schemas.gspo>;

/** Training options with GSPO's own, all filled in. */
export type GspoTrainingConfig<T> = Omit<T, keyof GspoOptions | "groupSize"> & GspoOptions & { groupSize: number };

/**
 * GSPO's settings for a run that was configured for another algorithm. What is general (steps, learning rate, …) is taken over; what belongs to
 * an algorithm (clip range, KL, group size) is not: GSPO's ratio is length-normalised, so that GRPO's ε of 0.2 would never clip.
 */
export const GSPOConfig = {
  fromTrainingConfig<T extends object>(
    config: T,
    overrides: Readonly<Record<string, unknown>> = {},
  ): GspoTrainingConfig<T> {
    const general = splitAlgorithmConfig(config as Record<string, unknown>).rest;
    const own = splitAlgorithmConfig(overrides);
    return {
      ...general,
      groupSize: defaultGroupSizes.gspo,
      ...own.rest,
      ...resolveAlgorithm({ ...own.algorithm, algorithm: "gspo" }),
    } as unknown as GspoTrainingConfig<T>;
  },
};

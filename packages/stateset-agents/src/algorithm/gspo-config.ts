import type { z } from "zod";
import { StatesetError } from "../error.ts";
import { resolveAlgorithm, splitAlgorithmConfig } from "./algorithms.ts";
import { defaultGroupSizes, type schemas } from "./options.ts";

type Name = "gspo" | "gspo-token";

/** GSPO's options as a user writes them; `algorithm` may be left out. */
export type GspoOptions =
  | (Omit<z.input<(typeof schemas)["gspo"]>, "algorithm"> & { algorithm?: "gspo" | undefined; credit?: undefined })
  | z.input<(typeof schemas)["gspo-token"]>;

/** Training options with GSPO's own, all filled in. */
export type GspoTrainingConfig<T> = Omit<T, KeysOf<Resolved> | "groupSize"> & Resolved & { groupSize: number };

type Resolved = z.output<(typeof schemas)[Name]>;
type KeysOf<U> = U extends unknown ? keyof U : never;

/** The name in options, GSPO's own where there is none; that of another algorithm is refused. */
export function gspoName(algorithm: unknown, where: string): Name {
  if (algorithm === undefined) return "gspo";
  if (algorithm === "gspo" || algorithm === "gspo-token") return algorithm;
  throw new StatesetError("INVALID_OPTION", `${where} cannot run the algorithm ${JSON.stringify(algorithm)}.`, {
    hint: 'Valid: "gspo", "gspo-token"; use train() for others.',
  });
}

/**
 * GSPO's settings for a run that was configured for another algorithm. What is general (steps, learning rate, …) is taken over; what belongs to
 * an algorithm (clip range, KL, group size) is not: GSPO's ratio is length-normalised, so that GRPO's ε of 0.2 would never clip.
 */
export const GSPOConfig = {
  fromTrainingConfig<T extends object>(
    config: T,
    overrides: GspoOptions & Partial<Omit<T, keyof GspoOptions>> & { groupSize?: number } = {},
  ): GspoTrainingConfig<T> {
    const general = splitAlgorithmConfig(config as Record<string, unknown>).rest;
    const own = splitAlgorithmConfig(overrides as Record<string, unknown>);
    const algorithm = gspoName(own.algorithm.algorithm, "GSPOConfig.fromTrainingConfig()");
    return {
      ...general,
      groupSize: defaultGroupSizes[algorithm],
      ...own.rest,
      ...resolveAlgorithm({ ...own.algorithm, algorithm }),
    } as unknown as GspoTrainingConfig<T>;
  },
};

import type { z } from "zod";
import type { Agent } from "../agent/agent.ts";
import type { schemas } from "../algorithm/options.ts";
import { StatesetError } from "../error.ts";
import type { TrainingOptions } from "./config.ts";
import { type TrainResult, train } from "./train.ts";
import type { TrainOptions, TrainParts } from "./train-options.ts";

type GSPOOptions = Omit<z.input<(typeof schemas)["gspo"]>, "algorithm"> & { algorithm?: "gspo" | "gspo-token" };

/**
 * train() with GSPO (Zheng et al. 2025): ratios and clipping per sequence, steadier on long replies.
 *
 * @example await trainWithGSPO({ ...GSPOConfig.fromTrainingConfig(configForTask("customer_service")), agent, environment, reward });
 */
export async function trainWithGSPO<A extends Agent>(
  options: TrainParts<A> & TrainingOptions & GSPOOptions,
): Promise<TrainResult<A>> {
  const algorithm: string = options.algorithm ?? "gspo";
  if (algorithm !== "gspo" && algorithm !== "gspo-token") {
    throw new StatesetError("INVALID_OPTION", `trainWithGSPO() cannot run the algorithm "${algorithm}".`, {
      hint: 'Valid: "gspo", "gspo-token"; use train() for others.',
    });
  }
  return train({ ...options, algorithm } as TrainOptions<A>);
}

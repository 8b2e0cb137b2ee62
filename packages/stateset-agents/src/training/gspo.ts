import type { Agent } from "../agent/agent.ts";
import { type GspoOptions, gspoName } from "../algorithm/gspo-config.ts";
import type { TrainingOptions } from "./config.ts";
import { type TrainResult, train } from "./train.ts";
import type { TrainOptions, TrainParts } from "./train-options.ts";

/**
 * train() with GSPO (Zheng et al. 2025): ratios and clipping per sequence, steadier on long replies.
 *
 * @example await trainWithGSPO({ ...GSPOConfig.fromTrainingConfig(configForTask("customer_service")), agent, environment, reward });
 */
export async function trainWithGSPO<A extends Agent>(
  options: TrainParts<A> & TrainingOptions & GspoOptions,
): Promise<TrainResult<A>> {
  return train({ ...options, algorithm: gspoName(options.algorithm, "trainWithGSPO()") } as TrainOptions<A>);
}

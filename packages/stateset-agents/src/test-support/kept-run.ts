/** A short run of which every conversation is written, for tests of what is written. */
import type { TrainOptions } from "../training/train-options.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "./table-training.ts";

/** In `dir`; whatever is given goes before. */
export function keptRun(dir: string, options: Partial<TrainOptions> = {}): TrainOptions {
  return {
    ...{ learningRate: 0.3, schedule: "constant", warmup: 0, groupsPerStep: 3, groupSize: 4, steps: 2 },
    ...{ dir, name: "run", agent: tableAgent().agent, reward: new FunctionReward(politeShare) },
    // A harness is its own.
    ...(!options.harness && { environment: tableEnvironment() }),
    trajectories: { every: 1, perStep: 3 },
    ...options,
  } as TrainOptions;
}

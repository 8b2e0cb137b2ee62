import type { MemoryPlan, PlanOptions } from "../policy.ts";
import type { WorkerInfo } from "./worker-info.ts";

/** What training needs on each rank, from what the worker says of itself. `available` counts what the model takes already. */
export function planTorch(
  { bytes, trainableParameters }: WorkerInfo,
  { tokenBudget, recompute, reference, scorer, undo }: PlanOptions,
  { adapted, ranks }: { adapted: boolean; ranks: number },
): MemoryPlan {
  const copy = (4 * trainableParameters) / ranks;
  const parts = {
    weights: bytes.weights / ranks,
    optimiser: bytes.trainable / ranks,
    reference: reference ? copy : 0,
    scorer: scorer && !adapted ? copy : 0,
    undo: undo ? copy : 0,
    activations: tokenBudget * (recompute ? bytes.perTokenRecompute : bytes.perToken),
    // Tensor by tensor, in the memory of the machine.
    saving: 0,
    cache: bytes.cache,
    keptActivations: 0,
  };
  const total = Object.values(parts).reduce((sum, one) => sum + one, 0);
  return { ...parts, total, available: bytes.free + bytes.weights / ranks };
}

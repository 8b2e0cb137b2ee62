import type { MemoryPlan } from "./policy.ts";

/** Of what needs none worth counting. */
export const noMemory: MemoryPlan = {
  weights: 0,
  optimiser: 0,
  reference: 0,
  scorer: 0,
  undo: 0,
  activations: 0,
  saving: 0,
  cache: 0,
  keptActivations: 0,
  total: 0,
  available: 0,
};

export { EarlyStopping, type EarlyStoppingOptions } from "./early-stopping.ts";
export { type Estimate, type EstimateOptions, estimateGroups, estimateMean } from "./estimate.ts";
export {
  type Comparison,
  compare,
  type EvaluateOptions,
  type Evaluation,
  evaluate,
  type ScenarioScore,
} from "./evaluate.ts";
export { type PairedOptions, type PairedResult, pairedTest } from "./paired-test.ts";
export { splitHeldOut } from "./split.ts";

export { type BootstrapOptions, bootstrapGroups, bootstrapMean, type Estimate } from "./bootstrap.ts";
export { EarlyStopping, type EarlyStoppingOptions } from "./early-stopping.ts";
export {
  type Comparison,
  compare,
  type EvaluateOptions,
  type Evaluation,
  evaluate,
  type ScenarioScore,
} from "./evaluate.ts";
export { type PairedResult, pairedTest } from "./paired-test.ts";
export { splitHeldOut } from "./split.ts";

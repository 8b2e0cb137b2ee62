export { chainsOf, type Harvest, type HarvestOptions, harvestBestOfN } from "./best-of-n.ts";
export {
  type CheckedConversation,
  encodeConversation,
  type SupervisedConversation,
  type SupervisedExample,
} from "./example.ts";
export {
  evaluateSupervised,
  type SupervisedEvaluation,
  type SupervisedOptions,
  type SupervisedResult,
  trainSupervised,
} from "./train-supervised.ts";
export { type ValueFitOptions, ValueFunction, type ValueFunctionOptions } from "./value-function.ts";

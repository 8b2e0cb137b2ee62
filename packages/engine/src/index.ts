export { EngineError } from "./error.ts";
export { type Model, openModel, type TokenListener } from "./model.ts";
export type {
  ConstraintTable,
  EmbeddedText,
  EngineConfig,
  EngineLora,
  EngineStats,
  EngineStep,
  ForwardBatch,
  ForwardResult,
  ForwardWants,
  MemoryUse,
  OpenOptions,
  PassHandle,
  RopeScaling,
  SampledExtras,
  SampledReply,
  SampleOptions,
  StepResult,
  TensorSpec,
  VocabularyBytes,
  WeightChange,
  WeightForm,
  WeightsHandle,
} from "./native.ts";
export { platformPackage } from "./platform.ts";
export type { RetainedLoad, RetainedTraining, RetainedWeights, WeightsLoad } from "./weights.ts";

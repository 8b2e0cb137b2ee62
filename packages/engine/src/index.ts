export { EngineError } from "./error.ts";
export { type Model, openModel } from "./model.ts";
export type {
  EngineConfig,
  EngineLora,
  EngineStep,
  ForwardBatch,
  ForwardResult,
  ForwardWants,
  RopeScaling,
  SampledReply,
  SampleOptions,
  StepResult,
  TensorSpec,
} from "./native.ts";
export { platformPackage } from "./platform.ts";

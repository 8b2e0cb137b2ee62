export type { EngineChoice } from "./engine-choice.ts";
export { type Engine, type EngineName, engines } from "./engines.ts";
export type { GgmlType } from "./gguf/ggml-types.ts";
export { type DownloadProgress, type ResolveOptions, resolveModel } from "./hub/resolve-model.ts";
export type { Precision, ReferencePrecision, TrainingPrecision } from "./native/precision.ts";
export { type OpenPolicyOptions, openPolicy } from "./open-policy.ts";
export * from "./policy.ts";
export {
  type FileContents,
  type JsonObject,
  type LoadedTokenizer,
  type LoadTokenizerOptions,
  loadChatTokenizer,
  type ModelFiles,
  type TemplateVariables,
  type TextStream,
  type TokenBytes,
} from "./tokenizer/index.ts";
export type { TorchOptions } from "./torch/torch-options.ts";
export type { TorchPolicy } from "./torch/torch-policy.ts";
export type { WorkerFacts } from "./torch/worker-link.ts";
export {
  type Dtype,
  openWeights,
  type RawTensor,
  type ReadOptions,
  type TensorToWrite,
  type WeightInfo,
  type Weights,
  writeSafetensors,
} from "./weights/index.ts";

export { openWeightFiles, openWeights, type RawTensor, type WeightInfo, type Weights } from "./open-weights.ts";
export type { ReadOptions } from "./safetensors-file.ts";
export type { Dtype } from "./safetensors-header.ts";
export { type TensorToWrite, writeSafetensors } from "./write-safetensors.ts";
export { isShardOf, writeShards } from "./write-shards.ts";

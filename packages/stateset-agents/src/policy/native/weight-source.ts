import { join } from "node:path";
import type { TensorSpec } from "@stateset-agents/engine";
import { sameJson } from "../../conversation/same-json.ts";
import { StatesetError } from "../../error.ts";
import { isGgufFile } from "../gguf/find-gguf.ts";
import type { LoraOptions } from "../policy.ts";
import { exists } from "../what-lies-at.ts";
import { type ModelConfig, readModelConfig } from "./model-config.ts";
import { type Adapter, engineAlphas, findTargets, loadAdapter } from "./peft.ts";
import { readAdapterConfig } from "./peft-config.ts";
import type { WeightForms } from "./precision.ts";
import { mismatch, readSnapshotState, snapshotFile } from "./snapshot.ts";
import { SnapshotTensors } from "./snapshot-tensors.ts";
import { type LinearModule, linearModules } from "./tensor-names.ts";
import { checkWeights, hasValueHead, loadValueHead, loadWeights, type TensorTarget } from "./weights.ts";

/** Weights for a policy that is already open: a snapshot, a model in Hugging Face layout or a GGUF file, or an adapter in PEFT's layout. */
export interface WeightSource {
  holds: "weights" | "adapter";
  valueHead: boolean;
  /** Everything it holds, tensor by tensor. */
  into(target: TensorTarget): Promise<void>;
  close(): Promise<void>;
}

/** What a source must fit. */
export interface Fitting {
  config: ModelConfig;
  adapter: Adapter | undefined;
  /** What the engine keeps its matrices as. */
  forms: WeightForms;
  /** Asked for again after a value head was added. */
  tensors(): Promise<readonly TensorSpec[]>;
}

/** Opens a folder and refuses what does not fit, before anything is read. */
export async function openWeightSource(dir: string, fitting: Fitting): Promise<WeightSource> {
  if (await isGgufFile(dir)) return modelSource(dir, fitting);
  if (await exists(join(dir, snapshotFile))) return snapshotSource(dir, fitting);
  if (await exists(join(dir, "config.json"))) return modelSource(dir, fitting);
  const saved = await readAdapterConfig(dir);
  if (saved) return adapterSource(dir, saved.lora, fitting);
  throw new StatesetError("MODEL_NOT_FOUND", `${dir} holds no weights.`, {
    hint: "Give a snapshot, a folder in Hugging Face layout, a .gguf file, or a folder with a PEFT adapter.",
  });
}

async function snapshotSource(dir: string, { config, adapter, tensors }: Fitting): Promise<WeightSource> {
  const state = await readSnapshotState(dir);
  if (state.architecture !== config.architecture) throw mismatch(dir, `it is a ${state.architecture}`);
  if (state.lora && JSON.stringify(state.lora) !== JSON.stringify(adapter?.lora ?? null)) {
    throw mismatch(dir, `its adapter options are ${JSON.stringify(state.lora)}`);
  }
  let opened: SnapshotTensors | undefined;
  return {
    holds: state.lora ? "adapter" : "weights",
    valueHead: state.valueHead,
    async into(target) {
      opened = await SnapshotTensors.open(dir, { config, adapter, specs: await tensors() }, state, true);
      await opened.weightsInto(target);
    },
    close: async () => opened?.close(),
  };
}

async function modelSource(dir: string, { config, forms }: Fitting): Promise<WeightSource> {
  const own = await readModelConfig(dir);
  if (own.architecture !== config.architecture || JSON.stringify(own.engine) !== JSON.stringify(config.engine)) {
    throw new StatesetError("CHECKPOINT_MISMATCH", `${dir} holds a model of another shape than the one that is open.`, {
      hint: "Open it with openPolicy() instead.",
    });
  }
  await checkWeights(dir, config);
  const valueHead = await hasValueHead(dir);
  return {
    holds: "weights",
    valueHead,
    async into(target) {
      await loadWeights(dir, config, target, forms);
      if (valueHead) await loadValueHead(dir, config.engine.hidden, target);
    },
    close: async () => {},
  };
}

async function adapterSource(dir: string, lora: LoraOptions, { config, adapter }: Fitting): Promise<WeightSource> {
  const paths = (modules: readonly LinearModule[]) => modules.map(({ path }) => path).join();
  const same =
    adapter !== undefined &&
    adapter.lora.rank === lora.rank &&
    sameJson(engineAlphas(adapter.lora, adapter.modules), engineAlphas(lora, adapter.modules)) &&
    paths(adapter.modules) === paths(findTargets(lora, linearModules(config.architecture, config.engine)));
  if (!same) {
    const own = adapter ? `has one with ${JSON.stringify(adapter.lora)}` : "has none";
    throw new StatesetError(
      "CHECKPOINT_MISMATCH",
      `${dir} is an adapter with ${JSON.stringify(lora)}; this policy ${own}.`,
    );
  }
  const valueHead = await hasValueHead(dir);
  return {
    holds: "adapter",
    valueHead,
    async into(target) {
      await loadAdapter(dir, lora, adapter.modules, { set: target.setTensor });
      if (valueHead) await loadValueHead(dir, config.engine.hidden, target);
    },
    close: async () => {},
  };
}

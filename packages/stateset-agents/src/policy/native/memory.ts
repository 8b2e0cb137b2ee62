import { readFileSync } from "node:fs";
import { freemem } from "node:os";
import type { EngineConfig } from "@stateset-agents/engine";
import { StatesetError } from "../../error.ts";
import type { LoraOptions, MemoryPlan, PlanOptions } from "../policy.ts";
import { type ModelConfig, readModelConfig } from "./model-config.ts";
import { type Adapter, findTargets } from "./peft.ts";
import {
  defaultPrecision,
  type Precision,
  type ReferencePrecision,
  smallReference,
  type TrainingPrecision,
  weightBytes,
  weightForms,
} from "./precision.ts";
import { adapterPlaces, isDirect, linearModules, tensorPlaces } from "./tensor-names.ts";
import { checkWeights, sizeOf } from "./weights.ts";

/** How many numbers a model of this shape has. */
export function parameterCount(c: EngineConfig): number {
  const [q, kv] = [c.heads * c.headDim, c.kvHeads * c.headDim];
  const norm = (c.norm === "layer" ? 2 : 1) * c.hidden;
  const attention = c.hidden * (q + 2 * kv) + q * c.hidden;
  const attentionBias = (c.qkvBias ? q + 2 * kv : 0) + (c.outBias ? c.hidden : 0) + (c.qkNorm ? 2 * c.headDim : 0);
  const gates = c.mlp === "swiglu" || c.mlp === "geglu" ? 2 : 1;
  const mlp = (gates + 1) * c.hidden * c.inter + (c.mlpBias ? gates * c.inter + c.hidden : 0);
  const positions = c.position === "learned" ? c.maxPositions * c.hidden : 0;
  const embeddings = (c.tied ? 1 : 2) * c.vocab * c.hidden;
  return embeddings + positions + norm + c.layers * (attention + attentionBias + mlp + (c.postNorm ? 4 : 2) * norm);
}

/** How many numbers an adapter has. */
export function adapterParameters({ lora, modules }: Adapter): number {
  return modules.reduce(
    (sum, { inSize, targets }) => sum + targets.reduce((n, { rows }) => n + lora.rank * (inSize + rows), 0),
    0,
  );
}

/** Replies sampled together, unless told otherwise. */
export const defaultSlots = 64;

/** For the keys and values of running and recent conversations: a quarter of what is free beside the weights, at most 1 GiB. */
export function defaultCacheBytes(weightBytes: number): number {
  return Math.floor(Math.min(2 ** 30, Math.max(0, availableMemory() - weightBytes) / 4));
}

/**
 * For activations and logits of sampling that training goes on from: a quarter of what is free beside the weights and what trains them, at most 2 GiB.
 * None where dropout makes a training pass another computation than sampling.
 */
export function defaultActivationBytes(config: ModelConfig, adapter: Adapter | undefined, kept: Kept): number {
  if (adapter && adapter.lora.dropout > 0) return 0;
  const { weights, optimiser } = memoryNeeds(config, adapter, kept);
  return Math.floor(Math.min(2 ** 31, Math.max(0, availableMemory() - weights - optimiser) / 4));
}

/** Bytes that parts of the work take. All numbers that are trained are 32-bit floats, and so are their gradients. */
export interface MemoryNeeds {
  /** Of the model and, where there is one, its adapter. */
  weights: number;
  /** Gradients and AdamW's two moments of what is trained. */
  optimiser: number;
  /** A reference to compare with once the weights have moved: what is trained, as it was. */
  reference: number;
  /** Copies of one tensor, the largest: of what is trained with its two moments, and of the model for a file of its weights. */
  saving: { training: number; weights: number };
  /** Another version of the weights beside the present one, while replies that began before a change run on. */
  version: number;
}

/** How a model is kept. */
export interface Kept {
  /** Of the base model. */
  weightBytes: number;
  moments: TrainingPrecision;
  /** Of a frozen copy, where it is not kept as what is trained. */
  referenceBytes: number | undefined;
}

export function memoryNeeds(
  { engine, architecture }: ModelConfig,
  adapter: Adapter | undefined,
  { weightBytes, moments, referenceBytes }: Kept,
): MemoryNeeds {
  const parameters = parameterCount(engine);
  const own = adapter ? adapterParameters(adapter) : 0;
  const trained = adapter ? own : parameters;
  const places = tensorPlaces(architecture, engine);
  const saved = adapter ? adapterPlaces(adapter.modules, adapter.lora.rank) : places;
  const largest = Math.max(...places.map(sizeOf));
  return {
    saving: {
      // Where the file wants a tensor otherwise than the engine has it, both are there.
      training: Math.max(...saved.map((place) => (isDirect(place) ? 12 : 24) * sizeOf(place))),
      // As the engine gives it, and as the file wants it.
      weights: 8 * largest,
    },
    weights: weightBytes + 4 * own,
    optimiser: (moments === "bf16" ? 8 : 12) * trained,
    reference: referenceBytes ?? 4 * trained,
    version: 4 * trained,
  };
}

/** Activations per token and layer: about 10 vectors of the hidden size, 2 more with post-norms, and 3 of the feed-forward block. */
export function planMemory(
  config: ModelConfig,
  adapter: Adapter | undefined,
  kept: Kept & { cacheBytes?: number | undefined; activationBytes?: number | undefined },
  { tokenBudget, recompute, reference, scorer, undo }: PlanOptions,
): MemoryPlan {
  const { engine } = config;
  const needs = memoryNeeds(config, adapter, kept);
  const ofLayer = (engine.postNorm ? 12 : 10) * engine.hidden + 3 * engine.inter;
  const perLayer = recompute ? engine.hidden : ofLayer;
  const parts = {
    weights: needs.weights,
    optimiser: needs.optimiser,
    reference: reference ? needs.reference : 0,
    scorer: scorer && !adapter ? needs.reference : 0,
    undo: undo ? needs.version : 0,
    activations: 4 * tokenBudget * engine.layers * perLayer,
    saving: needs.saving.training,
    cache: kept.cacheBytes ?? defaultCacheBytes(kept.weightBytes),
  };
  const needed = Object.values(parts).reduce((sum, bytes) => sum + bytes, 0);
  const available = availableMemory();
  const computedTwice = recompute || (adapter !== undefined && adapter.lora.dropout > 0);
  const most = computedTwice ? 0 : (kept.activationBytes ?? defaultActivationBytes(config, adapter, kept));
  // Nothing depends on it: where memory is short the engine keeps less.
  const keptActivations = Math.min(most, Math.max(0, available - needed));
  return { ...parts, keptActivations, total: needed + keptActivations, available };
}

export interface FolderPlanOptions extends PlanOptions {
  lora?: LoraOptions | undefined;
  precision?: Precision | undefined;
  referencePrecision?: ReferencePrecision | undefined;
  moments?: TrainingPrecision | undefined;
}

/** From a model's folder, without opening it. */
export async function planFolder(
  dir: string,
  { lora, precision, referencePrecision, moments = "f32", ...options }: FolderPlanOptions,
): Promise<MemoryPlan & { parameters: number }> {
  const config = await readModelConfig(dir);
  const { engine, architecture } = config;
  const adapter = lora && { lora, modules: findTargets(lora, linearModules(architecture, engine)) };
  const stored = await checkWeights(dir, config);
  const weights = weightBytes(
    stored,
    weightForms(stored, precision ?? defaultPrecision(stored, adapter !== undefined)),
  );
  const referenceBytes = smallReference(stored, referencePrecision, adapter !== undefined)?.bytes;
  const kept = { weightBytes: weights, moments, referenceBytes };
  return { ...planMemory(config, adapter, kept, options), parameters: parameterCount(engine) };
}

/** Bytes this process can still get: what the system calls available, or less in a container with a limit. */
export function availableMemory(): number {
  let available = freemem();
  if (process.platform === "linux") {
    // MemFree leaves out what the page cache would give back; MemAvailable does not.
    const line = /^MemAvailable:\s+(\d+) kB/m.exec(readProc("/proc/meminfo"));
    if (line) available = Number(line[1]) * 1024;
  }
  const limit = process.constrainedMemory();
  if (limit > 0 && limit < 2 ** 50) available = Math.min(available, limit - process.memoryUsage.rss());
  return Math.max(0, available);
}

function readProc(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

/** Throws before anything is allocated when `bytes` will not fit. */
export function foresee(bytes: number, what: string, hint: string, available = availableMemory()): void {
  if (bytes <= available) return;
  const gib = (value: number) => `${(value / 2 ** 30).toFixed(value < 2 ** 30 ? 2 : 1)} GiB`;
  throw new StatesetError("OUT_OF_MEMORY", `${what} needs about ${gib(bytes)}, and ${gib(available)} are available.`, {
    hint,
  });
}

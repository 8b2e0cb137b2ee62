import { z } from "zod";
import { StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import { type EngineChoice, withEngineName } from "./engine-choice.ts";
import { engineNames, engines } from "./engines.ts";
import type { DownloadProgress } from "./hub/resolve-model.ts";
import {
  type Precision,
  precisions,
  type ReferencePrecision,
  referencePrecisions,
  type TrainingPrecision,
  trainingPrecisions,
} from "./native/precision.ts";
import { loraSchema } from "./option-schemas.ts";
import type { LoraOptions, Policy } from "./policy.ts";
import type { StubOptions, StubReplies } from "./stub/stub-policy.ts";
import { type TorchOptions, torchSchema } from "./torch/torch-options.ts";

export interface OpenPolicyOptions {
  /** A folder in Hugging Face layout, a .gguf file (or a folder that holds one), a hub id such as "Qwen/Qwen3-0.6B", or `stub://…`. Default: the bundled starter model. */
  model?: string;
  /** Train a small adapter instead of all weights. */
  lora?: LoraOptions;
  /**
   * How the base model's weights lie in memory: "file" as their file holds them, "f32", "bf16", or "int8" with a scale for every 32 of them.
   * All but "f32" are frozen: they are trained by an adapter. Default: "file" for an adapter's base and for quantised files, else "f32".
   */
  precision?: Precision;
  /**
   * How the frozen copy that a KL term or DPO compares with lies in memory, where all weights are trained: "f32", or "bf16" in half the
   * bytes. Rounded, it is no longer the very model that training began with: its log-probs differ by about 0.01. Default "f32".
   */
  referencePrecision?: ReferencePrecision;
  /**
   * How AdamW's two moments lie in memory: "f32", or "bf16" in half the bytes, rounded up or down by chance so that nothing is lost on
   * average. A run that goes on needs the same. Default "f32".
   */
  moments?: TrainingPrecision;
  /**
   * What the products of the backward pass take their operands as: "f32", or "bf16", rounded, with sums in f32. With AVX512-BF16
   * they take half the time, with an AMX unit there is one product for three; elsewhere it brings no speed. Default "f32".
   */
  gradients?: TrainingPrecision;
  /**
   * What computes: "native" (the embedded engine), "torch" (PyTorch, on GPUs), or `torch://host:port`, a PyTorch worker that runs there.
   * Default: the stub where scripted replies are asked for, else the embedded engine.
   */
  engine?: EngineChoice;
  /** Of the embedded engine. Default: all cores. */
  threads?: number;
  /** Replies sampled together; further ones wait. Default 64. Results do not depend on it. */
  slots?: number;
  /** Memory for the keys and values of running and recent conversations. Default: a quarter of what is free, at most 1 GiB. */
  cacheBytes?: number;
  /**
   * Memory for activations and logits of replies that are sampled for training, so that the first pass over them does not compute them again. 0: none.
   * Default: a quarter of what is free beside the weights and what trains them, at most 2 GiB. Results do not depend on it.
   */
  activationBytes?: number;
  /** Requests that may wait for a slot; further ones fail with BUSY. Default: any number. */
  maxWaiting?: number;
  /** A branch, tag or commit on the hub. Default "main". */
  revision?: string;
  /** For private and gated models. Default: the environment variable HF_TOKEN. */
  token?: string;
  /** Use only what is already on this machine. Default: the environment variable HF_HUB_OFFLINE. */
  offline?: boolean;
  /** Where downloads are kept. Default: where Hugging Face's own tools keep them. */
  cacheDir?: string;
  /** Fixes the initial values of what is added to the model (an adapter). Default 0. */
  seed?: number;
  /** Use no model at all but scripted replies. */
  stub?: { replies?: StubReplies; dryRun?: boolean };
  /** Of the engine "torch": which GPUs or which worker. */
  torch?: TorchOptions;
  /** Called while the model is downloaded. Default: a progress bar, where there is a terminal. */
  onProgress?: (progress: DownloadProgress) => void;
}

const schema = z.strictObject({
  model: z.string().min(1).optional(),
  lora: loraSchema.optional(),
  precision: z.enum(precisions).optional(),
  referencePrecision: z.enum(referencePrecisions).optional(),
  moments: z.enum(trainingPrecisions).optional(),
  gradients: z.enum(trainingPrecisions).optional(),
  engine: z.enum(engineNames).optional(),
  threads: z.int().min(1).optional(),
  slots: z.int().min(1).optional(),
  cacheBytes: z.int().min(0).optional(),
  activationBytes: z.int().min(0).optional(),
  maxWaiting: z.int().min(0).optional(),
  revision: z.string().min(1).optional(),
  token: z.string().min(1).optional(),
  offline: z.boolean().optional(),
  cacheDir: z.string().min(1).optional(),
  seed: z.int().min(0).optional(),
  stub: z.custom<Omit<StubOptions, "model">>((value) => typeof value === "object" && value !== null).optional(),
  torch: torchSchema.optional(),
  onProgress: z
    .custom<(progress: DownloadProgress) => void>((value) => typeof value === "function", "not a function")
    .optional(),
});

/**
 * Opens a model to sample from and to train.
 *
 * @example
 * const policy = await openPolicy({ model: "stub://demo", stub: { replies: ["Hello!"] } });
 * const { tokens } = policy.tokenizer.extend(undefined, [{ role: "user", content: "Hi" }], { addGenerationPrompt: true });
 * const [sample] = await policy.sample([{ tokens, sampling: defaultSampling, seed: 1 }]);
 * await policy.close();
 */
export async function openPolicy(options: OpenPolicyOptions = {}): Promise<Policy> {
  const { engine, model, stub, ...rest } = parseOptions(schema, withEngineName(options), "openPolicy()");
  const scripted = stub !== undefined || model?.startsWith("stub://") === true;
  if (engine !== undefined && engine !== "stub" && scripted) {
    const which = engine === "native" ? "embedded" : engine;
    throw new StatesetError("INVALID_OPTION", `openPolicy() is asked for scripted replies on the ${which} engine.`, {
      hint: "Leave out engine, or leave out stub and name a model.",
    });
  }
  const { lora, precision, referencePrecision, moments, gradients, threads, seed, torch } = rest;
  const { slots, cacheBytes, activationBytes, maxWaiting } = rest;
  if (torch && engine !== "torch") {
    throw new StatesetError("INVALID_OPTION", "openPolicy() is given options of the torch engine for another one.", {
      hint: 'Say engine: "torch", or leave out torch.',
    });
  }
  const { revision, token, offline, cacheDir, onProgress } = rest;
  return engines[engine ?? (scripted ? "stub" : "native")].open({
    model,
    stub,
    lora,
    precision,
    referencePrecision,
    moments,
    gradients,
    threads,
    seed,
    slots,
    cacheBytes,
    activationBytes,
    maxWaiting,
    torch,
    hub: { revision, token, offline, cacheDir, onProgress },
  });
}

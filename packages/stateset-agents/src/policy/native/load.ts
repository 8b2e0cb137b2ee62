import { availableParallelism } from "node:os";
import { join } from "node:path";
import { openModel } from "@stateset-agents/engine";
import { z } from "zod";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { resolveBase } from "../adapter-base.ts";
import { isGgufFile, tokenizerSource } from "../gguf/find-gguf.ts";
import type { ResolveOptions } from "../hub/resolve-model.ts";
import type { LoraOptions } from "../policy.ts";
import { loadChatTokenizer } from "../tokenizer/index.ts";
import { exists } from "../what-lies-at.ts";
import { onEngine } from "./errors.ts";
import {
  availableMemory,
  defaultActivationBytes,
  defaultCacheBytes,
  defaultSlots,
  foresee,
  parameterCount,
} from "./memory.ts";
import { readModelConfig } from "./model-config.ts";
import { createNativePolicy, type NativePolicy } from "./native-policy.ts";
import { engineAlphas, engineTargets, findTargets, loadAdapter, parseLora } from "./peft.ts";
import { readAdapterConfig } from "./peft-config.ts";
import {
  defaultPrecision,
  leastBytesPerNumber,
  type Precision,
  precisions,
  type ReferencePrecision,
  referencePrecisions,
  smallReference,
  type TrainingPrecision,
  trainingPrecisions,
  weightBytes,
  weightForms,
} from "./precision.ts";
import { linearModules } from "./tensor-names.ts";
import { checkWeights, hasValueHead, loadValueHead, loadWeights, type TensorTarget } from "./weights.ts";

export interface NativePolicyOptions {
  /** A folder in Hugging Face layout, a .gguf file, or a folder with a PEFT adapter (its base model is then loaded too). */
  dir: string;
  /** What to call the model: the path or hub id it came from. Default: `dir`. */
  name?: string | undefined;
  /** Train a new adapter instead of all weights. */
  lora?: LoraOptions | undefined;
  /** How the base model's weights lie in memory. Default: as their file holds them, or f32 where all of them are to be trained. */
  precision?: Precision | undefined;
  /** How a frozen copy of the weights lies in memory, where all of them are trained. Default "f32". */
  referencePrecision?: ReferencePrecision | undefined;
  /** How AdamW's two moments lie in memory. Default "f32". */
  moments?: TrainingPrecision | undefined;
  /** What the products of the backward pass take their operands as. Default "f32". */
  gradients?: TrainingPrecision | undefined;
  /** Default: all cores. Results do not depend on it. */
  threads?: number | undefined;
  /** Of an adapter's first values and of dropout. Default 0. */
  seed?: number | undefined;
  /** Replies sampled together. Default 64. Results do not depend on it. */
  slots?: number | undefined;
  /** Memory for the keys and values of running and recent conversations. Default: a quarter of what is free, at most 1 GiB. */
  cacheBytes?: number | undefined;
  /**
   * Memory for activations and logits of replies that are sampled for training, so that the first pass over them does not compute them again. 0: none.
   * Default: a quarter of what is free beside the weights and what trains them, at most 2 GiB. Results do not depend on it.
   */
  activationBytes?: number | undefined;
  /** Requests that may wait for a slot; further ones fail with BUSY. Default: any number. */
  maxWaiting?: number | undefined;
  /**
   * Memory for weights that only running replies still need after a change. Where a change finds no room it waits for these replies
   * instead, and requests wait with it. Default: what is free at that time (on Linux), or half of what is free now.
   */
  versionBytes?: number | undefined;
  /** How long such a change waits before it fails with DRAIN_TIMEOUT. Default 30,000. */
  drainMs?: number | undefined;
  /** Where and how the base model of an adapter is looked for, when it is a hub id. */
  hub?: ResolveOptions | undefined;
}

const schema = z.strictObject({
  dir: z.string().min(1),
  name: z.string().min(1).optional(),
  lora: z.custom<LoraOptions>((value) => typeof value === "object" && value !== null, "not an object").optional(),
  precision: z.enum(precisions).optional(),
  referencePrecision: z.enum(referencePrecisions).optional(),
  moments: z.enum(trainingPrecisions).default("f32"),
  gradients: z.enum(trainingPrecisions).default("f32"),
  threads: z.int().min(1).max(1024).optional(),
  seed: z.int().min(0).default(0),
  slots: z.int().min(1).max(4096).default(defaultSlots),
  cacheBytes: z.int().min(0).optional(),
  activationBytes: z.int().min(0).optional(),
  maxWaiting: z.int().min(0).optional(),
  versionBytes: z.int().min(0).optional(),
  drainMs: z.int().min(0).optional(),
  hub: z.custom<ResolveOptions>((value) => typeof value === "object" && value !== null, "not an object").optional(),
});

/** Loads a model from a folder into the embedded engine. */
export async function loadNativePolicy(options: NativePolicyOptions): Promise<NativePolicy> {
  const o = parseOptions(schema, options, "loadNativePolicy()");
  const whole = (await isGgufFile(o.dir)) || (await exists(join(o.dir, "config.json")));
  const saved = whole ? undefined : await readAdapterConfig(o.dir);
  if (saved && o.lora) {
    throw new StatesetError("INVALID_OPTION", `${o.dir} is an adapter already; it cannot get another one.`, {
      hint: "Leave out lora to go on training it, or merge it into its base model first.",
    });
  }
  const base = saved ? await resolveBase(saved.base, o.dir, o.hub) : { dir: o.dir, name: o.name ?? o.dir };
  const config = await readModelConfig(base.dir);
  const own = await exists(join(o.dir, "tokenizer.json"));
  const tokenizerFiles = own ? o.dir : await tokenizerSource(base.dir);
  const tokenizer = await loadChatTokenizer(tokenizerFiles, { vocabSize: config.engine.vocab });
  const described = `${base.name} with ${parameterCount(config.engine)} parameters`;
  const hint = "Use a smaller model, keep its weights in fewer bits (`precision`), or take a machine with more memory.";
  foresee(leastBytesPerNumber * parameterCount(config.engine), described, hint);
  // Before the engine reserves anything: a wrong size in config.json could ask for gigabytes.
  const stored = await checkWeights(base.dir, config);
  const frozen = saved !== undefined || o.lora !== undefined;
  const forms = weightForms(stored, o.precision ?? defaultPrecision(stored, frozen));
  const bytes = weightBytes(stored, forms);
  const reference = smallReference(stored, o.referencePrecision, frozen);
  foresee(bytes, described, hint);

  const threads = o.threads ?? availableParallelism();
  const cacheBytes = o.cacheBytes ?? defaultCacheBytes(bytes);
  // Elsewhere the engine cannot tell what is free.
  const versionBytes = o.versionBytes ?? (process.platform === "linux" ? undefined : Math.floor(availableMemory() / 2));
  const modules = linearModules(config.architecture, config.engine);
  const lora = saved?.lora ?? (o.lora && parseLora(o.lora));
  const file = saved && join(o.dir, "adapter_config.json");
  const adapter = lora && { lora, modules: findTargets(lora, modules, file) };
  const { moments, gradients } = o;
  const kept = { weightBytes: bytes, moments, referenceBytes: reference?.bytes };
  const activationBytes = o.activationBytes ?? defaultActivationBytes(config, adapter, kept);
  const limits = { slots: o.slots, cacheBytes, activationBytes, maxWaiting: o.maxWaiting };
  const changes = { versionBytes, drainMs: o.drainMs };
  const model = await onEngine(() =>
    openModel(config.engine, { threads, forms, moments, gradients, ...limits, ...changes }),
  );
  /** One change of the weights. */
  const fill = async (put: (target: TensorTarget) => Promise<void>) => {
    const load = await model.beginLoad();
    await put(load);
    await load.commit();
  };
  try {
    return await onEngine(async () => {
      await model.setTrainable("none");
      await fill((load) => loadWeights(base.dir, config, load, forms));
      if (adapter) {
        const targets = engineTargets(adapter.modules, config.engine.layers);
        const { rank, alpha, dropout } = adapter.lora;
        const alphas = engineAlphas(adapter.lora, adapter.modules);
        await model.addLora({ rank, alpha, alphas, dropout, targets, seed: o.seed });
        if (saved) {
          await fill((load) => loadAdapter(o.dir, adapter.lora, adapter.modules, { set: load.setTensor }));
        }
      }
      const valueHead = await hasValueHead(o.dir);
      if (valueHead) {
        await model.addValueHead();
        await fill((load) => loadValueHead(o.dir, config.engine.hidden, load));
      }
      const name = o.name ?? o.dir;
      return createNativePolicy({
        name,
        base,
        tokenizerFiles,
        config,
        forms,
        weightBytes: bytes,
        reference,
        moments,
        gradients,
        threads,
        model,
        tokenizer,
        adapter,
        adapterDir: saved && o.dir,
        digest: await model.digest(),
        valueHead,
        seed: o.seed,
        cacheBytes,
        activationBytes,
      });
    });
  } catch (error) {
    await model.close();
    throw error;
  }
}

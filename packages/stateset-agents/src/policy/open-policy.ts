import { z } from "zod";
import { parseOptions } from "../options.ts";
import type { DownloadProgress } from "./hub/resolve-model.ts";
import type { LoraOptions, Policy } from "./policy.ts";
import type { StubOptions, StubReplies } from "./stub/stub-policy.ts";

export interface OpenPolicyOptions {
  /** A folder in Hugging Face layout, a hub id such as "Qwen/Qwen3-0.6B", or `stub://…`. Default: the bundled starter model. */
  model?: string;
  /** Train a small adapter instead of all weights. */
  lora?: LoraOptions;
  /** Of the embedded engine. Default: all cores. */
  threads?: number;
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
  /** Called while the model is downloaded. Default: a progress bar, where there is a terminal. */
  onProgress?: (progress: DownloadProgress) => void;
}

const schema = z.strictObject({
  model: z.string().min(1).optional(),
  lora: z.custom<LoraOptions>((value) => typeof value === "object" && value !== null).optional(),
  threads: z.int().min(1).optional(),
  revision: z.string().min(1).optional(),
  token: z.string().min(1).optional(),
  offline: z.boolean().optional(),
  cacheDir: z.string().min(1).optional(),
  seed: z.int().min(0).optional(),
  stub: z.custom<Omit<StubOptions, "model">>((value) => typeof value === "object" && value !== null).optional(),
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
  const parsed = parseOptions(schema, options, "openPolicy()");
  // Each way is imported only when it is taken: a stub needs no engine, a local model no hub client.
  if (parsed.stub || parsed.model?.startsWith("stub://")) {
    const { createStubPolicy } = await import("./stub/stub-policy.ts");
    const model = parsed.model?.startsWith("stub://") ? { model: parsed.model } : {};
    return createStubPolicy({ ...parsed.stub, ...model });
  }
  const { resolveModel } = await import("./hub/resolve-model.ts");
  const { createProgressBar } = await import("./hub/progress-bar.ts");
  const { loadNativePolicy } = await import("./native/load.ts");
  const model = parsed.model ?? (await import("@stateset-agents/starter-model")).starterModelPath;
  const onProgress = parsed.onProgress ?? (process.stderr.isTTY ? createProgressBar(process.stderr) : undefined);
  const { revision, token, offline, cacheDir, lora, threads, seed } = parsed;
  const { dir, name } = await resolveModel(model, { revision, token, offline, cacheDir, onProgress });
  return loadNativePolicy({
    dir,
    name,
    // An adapter's base model comes from the same place; the revision is the adapter's own.
    hub: { token, offline, cacheDir, onProgress },
    ...(lora && { lora }),
    ...(threads && { threads }),
    ...(seed !== undefined && { seed }),
  });
}

/** The engines by name. Each is imported only when it is asked for: a stub needs no engine, a local model no hub client. */
import { StatesetError } from "../error.ts";
import type { DownloadProgress } from "./hub/resolve-model.ts";
import type { FolderPlanOptions } from "./native/memory.ts";
import type { Precision, ReferencePrecision, TrainingPrecision } from "./native/precision.ts";
import { noMemory } from "./no-memory.ts";
import type { LoraOptions, MemoryPlan, Policy } from "./policy.ts";
import type { StubOptions } from "./stub/stub-policy.ts";
import type { TorchOptions } from "./torch/torch-options.ts";

export interface EngineOptions {
  model: string | undefined;
  lora: LoraOptions | undefined;
  precision: Precision | undefined;
  referencePrecision: ReferencePrecision | undefined;
  moments: TrainingPrecision | undefined;
  gradients: TrainingPrecision | undefined;
  threads: number | undefined;
  seed: number | undefined;
  slots: number | undefined;
  cacheBytes: number | undefined;
  activationBytes: number | undefined;
  maxWaiting: number | undefined;
  hub: {
    revision: string | undefined;
    token: string | undefined;
    offline: boolean | undefined;
    cacheDir: string | undefined;
    onProgress: ((progress: DownloadProgress) => void) | undefined;
  };
  stub: Omit<StubOptions, "model"> | undefined;
  torch: TorchOptions | undefined;
}

export interface Engine {
  open(options: EngineOptions): Promise<Policy>;
  /** What training a model will need, from its folder alone. */
  plan(dir: string, options: FolderPlanOptions): Promise<MemoryPlan & { parameters: number }>;
}

const native: Engine = {
  async open({ model, hub, stub: _, torch: __, ...options }) {
    const { loadNativePolicy } = await import("./native/load.ts");
    return loadNativePolicy({ ...options, ...(await located(model, hub)) });
  },
  plan: async (dir, options) => (await import("./native/memory.ts")).planFolder(dir, options),
};

/** The folder of a model, fetched where it is not on this machine. */
async function located(model: string | undefined, hub: EngineOptions["hub"]) {
  const { resolveModel } = await import("./hub/resolve-model.ts");
  const { createProgressBar } = await import("./hub/progress-bar.ts");
  const wanted = model ?? (await import("@stateset-agents/starter-model")).starterModelPath;
  const onProgress = hub.onProgress ?? (process.stderr.isTTY ? createProgressBar(process.stderr) : undefined);
  const { dir, name } = await resolveModel(wanted, { ...hub, onProgress });
  // An adapter's base model comes from the same place; the revision is the adapter's own.
  return { dir, name, hub: { ...hub, revision: undefined, onProgress } };
}

const torch: Engine = {
  async open({ model, hub, lora, seed, slots, maxWaiting, torch, stub: _, ...others }) {
    const foreign = Object.entries(others).find(([, value]) => value !== undefined)?.[0];
    if (foreign !== undefined) {
      throw new StatesetError("INVALID_OPTION", `${foreign} is an option of the embedded engine.`, {
        hint: "Leave it out: `torch` holds those of the torch engine.",
      });
    }
    const { loadTorchPolicy } = await import("./torch/load.ts");
    return loadTorchPolicy({ ...(await located(model, hub)), lora, seed, slots, maxWaiting, torch });
  },
  async plan() {
    throw new StatesetError(
      "CAPABILITY_MISSING",
      "What the torch engine needs is known once the model is open in it.",
      {
        hint: "Open it and ask policy.plan().",
      },
    );
  },
};

const stub: Engine = {
  async open({ model, stub: options }) {
    const { createStubPolicy } = await import("./stub/stub-policy.ts");
    return createStubPolicy({ ...options, ...(model?.startsWith("stub://") && { model }) });
  },
  plan: async () => ({ ...noMemory, parameters: 0 }),
};

export const engines = { native, stub, torch } as const satisfies Record<string, Engine>;
export type EngineName = keyof typeof engines;
export const engineNames = Object.keys(engines) as EngineName[];

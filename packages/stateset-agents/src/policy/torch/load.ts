import { join } from "node:path";
import { z } from "zod";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { resolveBase } from "../adapter-base.ts";
import { isGgufFile } from "../gguf/find-gguf.ts";
import type { ResolveOptions } from "../hub/resolve-model.ts";
import { readAdapterConfig } from "../native/peft-config.ts";
import { loraSchema } from "../option-schemas.ts";
import type { LoraOptions } from "../policy.ts";
import { loadChatTokenizer } from "../tokenizer/index.ts";
import { exists } from "../what-lies-at.ts";
import { addressOf, attachWorker } from "./attach.ts";
import { spawnWorker } from "./spawn.ts";
import { type OpenWorker, TorchCore } from "./torch-core.ts";
import { type TorchOptions, torchSchema } from "./torch-options.ts";
import { createTorchPolicy, type TorchPolicy } from "./torch-policy.ts";
import { infoOf } from "./worker-info.ts";
import type { WorkerLink } from "./worker-link.ts";

export interface TorchPolicyOptions {
  /** A folder in Hugging Face layout, or one with a PEFT adapter (its base model is then loaded too). */
  dir: string;
  /** What to call the model: the path or hub id it came from. Default: `dir`. */
  name?: string | undefined;
  /** Train a new adapter instead of all weights. */
  lora?: LoraOptions | undefined;
  /** Of an adapter's first values and of dropout. Default 0. */
  seed?: number | undefined;
  /** Replies sampled together on one rank, at most. Default 64. */
  slots?: number | undefined;
  maxWaiting?: number | undefined;
  hub?: ResolveOptions | undefined;
  torch?: TorchOptions | undefined;
}

const schema = z.strictObject({
  dir: z.string().min(1),
  name: z.string().min(1).optional(),
  lora: loraSchema.optional(),
  seed: z.int().min(0).default(0),
  slots: z.int().min(1).max(4096).optional(),
  maxWaiting: z.int().min(0).optional(),
  hub: z.custom<ResolveOptions>((value) => typeof value === "object" && value !== null, "not an object").optional(),
  torch: torchSchema.default({}),
});

/** Opens a model in a PyTorch worker, which is started for it or found at `torch.url`. */
export async function loadTorchPolicy(options: TorchPolicyOptions): Promise<TorchPolicy> {
  const o = parseOptions(schema, options, "loadTorchPolicy()");
  const { torch } = o;
  checkWhere(torch);
  const whole = await exists(join(o.dir, "config.json"));
  if (!whole && (await isGgufFile(o.dir))) throw noGguf(o.dir);
  const saved = whole ? undefined : await readAdapterConfig(o.dir);
  if (saved && o.lora) {
    throw new StatesetError("INVALID_OPTION", `${o.dir} is an adapter already; it cannot get another one.`, {
      hint: "Leave out lora to go on training it, or merge it into its base model first.",
    });
  }
  if (!whole && !saved) {
    throw new StatesetError("MODEL_NOT_FOUND", `${o.dir} holds no model: there is no config.json.`);
  }
  const base = saved ? await resolveBase(saved.base, o.dir, o.hub) : { dir: o.dir, name: o.name ?? o.dir };
  if (await isGgufFile(base.dir)) throw noGguf(base.dir);
  const tokenizerFiles = (await exists(join(o.dir, "tokenizer.json"))) ? o.dir : base.dir;
  // Before a worker is started for nothing.
  const tokenizer = await loadChatTokenizer(tokenizerFiles);
  const lora = saved?.lora ?? o.lora;

  let beat = () => {};
  const launch = async (again: boolean): Promise<OpenWorker> => {
    const link = await connect(torch, () => beat(), again);
    try {
      checkDevice(link, torch);
      const reply = await link.connection.call("open", {
        model: base.dir,
        adapter: saved ? o.dir : null,
        lora: saved ? null : (lora ?? null),
        dtype: torch.dtype ?? "auto",
        quantise: torch.quantise ?? null,
        seed: o.seed,
        ...(o.slots !== undefined && { slots: o.slots }),
      });
      return { link, info: infoOf(reply) };
    } catch (error) {
      await link.close(new StatesetError("POLICY_CLOSED", `${o.dir} could not be opened.`));
      throw error;
    }
  };
  const core = new TorchCore(
    {
      name: o.name ?? o.dir,
      base,
      tokenizerFiles,
      tokenizer,
      lora,
      adapterDir: saved && o.dir,
      passesInFlight: torch.passesInFlight ?? 2,
      maxWaiting: o.maxWaiting,
      launch,
    },
    await launch(false),
  );
  const { policy, onBeat } = createTorchPolicy(core);
  beat = onBeat;
  return policy;
}

/** Options that nothing would read are refused, not ignored. */
function checkWhere({ url, tls, python }: z.output<typeof torchSchema>): void {
  const refused = (what: string, hint: string) => new StatesetError("INVALID_OPTION", what, { hint });
  if (tls !== undefined && url === undefined) {
    throw refused(
      "torch.tls is for a worker elsewhere, and there is no torch.url.",
      "Name the worker, or leave torch.tls out: a worker of this machine is spoken to through a private socket.",
    );
  }
  if (python !== undefined && url !== undefined) {
    throw refused(
      `torch.python is for a worker that is started here, and torch.url names one that runs already: ${addressOf(url).host}.`,
      "Leave one of them out.",
    );
  }
}

/** Longer than a worker holds on to a client whose network broke. */
const busyMs = 90_000;

async function connect(torch: z.output<typeof torchSchema>, onBeat: () => void, again: boolean): Promise<WorkerLink> {
  const { url, tls, python, gpus, device = "cuda", logDir, deadlineSeconds = 600 } = torch;
  const common = { deadlineMs: 1000 * deadlineSeconds, logDir, onBeat };
  if (url !== undefined) return attachWorker({ ...common, url, tls, ...(again && { busyMs }) });
  return spawnWorker({ ...common, python, device, ranks: gpus ?? 1 });
}

function checkDevice({ hello }: WorkerLink, { url, gpus, device, quantise }: z.output<typeof torchSchema>): void {
  const wanted = device ?? (url === undefined ? "cuda" : hello.device);
  if (hello.device !== wanted) {
    const [what, hint] =
      wanted === "cuda"
        ? [
            "PyTorch sees no GPU.",
            'Look at nvidia-smi and CUDA_VISIBLE_DEVICES, install a PyTorch with CUDA (`stateset-agents setup-gpu`), or say torch.device: "cpu".',
          ]
        : ["The worker computes on a GPU, and torch.device is cpu.", "Leave torch.device out."];
    throw new StatesetError("ENGINE_UNAVAILABLE", what, { hint });
  }
  if (gpus !== undefined && gpus !== hello.world) {
    throw new StatesetError("INVALID_OPTION", `torch.gpus is ${gpus}, and the worker has ${hello.world}.`, {
      hint: "A worker at torch.url has as many as it was started with: leave torch.gpus out.",
    });
  }
  if (quantise && !(hello.bitsandbytes && hello.device === "cuda")) {
    throw new StatesetError(
      "ENGINE_UNAVAILABLE",
      `torch.quantise "${quantise}" needs bitsandbytes and a GPU; the worker has ${hello.device === "cuda" ? "no bitsandbytes" : "no GPU"}.`,
      { hint: "Leave quantise out, or install bitsandbytes into the worker's Python." },
    );
  }
}

function noGguf(path: string): StatesetError {
  return new StatesetError(
    "MODEL_UNSUPPORTED",
    `${path} is a GGUF file, and the torch engine reads safetensors alone.`,
    {
      hint: "Take the model in Hugging Face layout, or the embedded engine.",
    },
  );
}

import { join } from "node:path";
import { writeJsonAtomic } from "../../durable.ts";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { didYouMean } from "../../suggest.ts";
import { makeFolder } from "../files.ts";
import { loraSchema } from "../option-schemas.ts";
import type { LoraOptions } from "../policy.ts";
import { openWeights, type TensorToWrite, type Weights, writeSafetensors } from "../weights/index.ts";
import { exists } from "../what-lies-at.ts";
import { adapterPlaces, type LinearModule } from "./tensor-names.ts";
import { wholeTensor } from "./weights.ts";

/**
 * Adapters in PEFT's layout. For a module that stands for several layers of the engine PEFT makes one A [r, in] and one B [3h, r].
 * Reading copies A and cuts B. What is written is wider (adapterPlaces()), with PEFT's rank_pattern and alpha_pattern to say so.
 */
export interface AdapterAccess {
  read(name: string): Promise<Float32Array>;
  set(name: string, data: Float32Array): Promise<unknown>;
}

const otherBase = "The adapter was trained on another model: correct base_model_name_or_path in adapter_config.json.";

/** The adapter of a policy, and the modules it sits on. */
export interface Adapter {
  lora: LoraOptions;
  modules: readonly LinearModule[];
}

/** Checked, with its keys in one order, so that two can be compared. */
export function parseLora(options: unknown): LoraOptions {
  return parseOptions(loraSchema, options, "lora");
}

/** The modules that the options name, or the adapter_config.json they are from. */
export function findTargets(
  { targetModules }: LoraOptions,
  modules: readonly LinearModule[],
  file?: string,
): LinearModule[] {
  if (targetModules === "all-linear") return [...modules];
  const named = (target: string, path: string) => path === target || path.endsWith(`.${target}`);
  for (const target of targetModules) {
    if (modules.some(({ path }) => named(target, path))) continue;
    const names = [...new Set(modules.map(({ path }) => path.split(".").at(-1)!))];
    const [code, where] = file
      ? (["MODEL_INVALID", `target_modules in ${file}`] as const)
      : (["INVALID_OPTION", "lora.targetModules"] as const);
    throw new StatesetError(code, `${where} names "${target}", which the model does not have.`, {
      hint: file ? otherBase : didYouMean(target, names),
    });
  }
  return modules.filter(({ path }) => targetModules.some((target) => named(target, path)));
}

/** The engine adapts a kind of layer in every block or in none. */
export function engineTargets(chosen: readonly LinearModule[], layers: number): string[] {
  const blocks = new Map<string, number>();
  for (const { targets } of chosen) {
    for (const { target } of targets) blocks.set(target, (blocks.get(target) ?? 0) + 1);
  }
  for (const [target, count] of blocks) {
    if (count !== layers) {
      throw new StatesetError(
        "MODEL_UNSUPPORTED",
        `The adapter covers "${target}" in ${count} of ${layers} layers; the engine adapts all layers or none.`,
      );
    }
  }
  return [...blocks.keys()];
}

export async function saveAdapter(
  dir: string,
  lora: LoraOptions,
  chosen: readonly LinearModule[],
  base: string,
  conv1d: boolean,
  access: Pick<AdapterAccess, "read">,
): Promise<void> {
  const { rank } = lora;
  const tensors = adapterPlaces(chosen, rank).map(
    (place): TensorToWrite => ({
      ...{ name: place.name, shape: place.shape },
      data: () => wholeTensor(place, access.read),
    }),
  );
  const suffixes = [...new Set(chosen.map(({ path }) => moduleSuffix(path)))];
  /** How many layers of the engine such a module stands for. */
  const times = (suffix: string) => chosen.find(({ path }) => moduleSuffix(path) === suffix)!.targets.length;
  const pattern = (value: (suffix: string) => number, usual: number) =>
    Object.fromEntries(
      suffixes.flatMap((suffix) => {
        const own = value(suffix) * times(suffix);
        return own === usual ? [] : [[suffix, own]];
      }),
    );
  await makeFolder(dir);
  await writeSafetensors(join(dir, "adapter_model.safetensors"), tensors, { format: "pt" });
  writeJsonAtomic(join(dir, "adapter_config.json"), {
    peft_type: "LORA",
    task_type: "CAUSAL_LM",
    base_model_name_or_path: base,
    r: rank,
    lora_alpha: lora.alpha,
    lora_dropout: lora.dropout,
    target_modules: suffixes,
    bias: "none",
    fan_in_fan_out: conv1d,
    inference_mode: true,
    init_lora_weights: true,
    modules_to_save: null,
    layers_to_transform: null,
    layers_pattern: null,
    use_rslora: false,
    use_dora: false,
    rank_pattern: pattern(() => rank, rank),
    alpha_pattern: pattern((suffix) => alphaOf(lora, suffix), lora.alpha),
  });
}

/** The alpha of a module: that of the first pattern its name ends with, as PEFT reads them, or the adapter's own. */
export function alphaOf({ alpha, alphaPattern = {} }: LoraOptions, path: string): number {
  return Object.entries(alphaPattern).find(([name]) => path === name || path.endsWith(`.${name}`))?.[1] ?? alpha;
}

/** By kind of layer, which the engine scales alike in every block. */
export function engineAlphas(lora: LoraOptions, chosen: readonly LinearModule[]): Record<string, number> {
  const alphas: Record<string, number> = {};
  for (const { path, targets } of chosen) {
    const alpha = alphaOf(lora, path);
    for (const { target } of targets) {
      alphas[target] ??= alpha;
      if (alphas[target] === alpha) continue;
      throw new StatesetError(
        "MODEL_UNSUPPORTED",
        `The adapter gives "${path}" another alpha than the same layer of other blocks; the engine scales all blocks alike.`,
        { hint: "Merge the adapter into its base model with peft (merge_and_unload) and load the result." },
      );
    }
  }
  return alphas;
}

/** `self_attn.q_proj` of `model.layers.0.self_attn.q_proj`: GPT-2 has two modules called c_proj, so the parent is part of it. */
function moduleSuffix(path: string): string {
  return path.split(".").slice(-2).join(".");
}

/** Puts the tensors of adapter_model.safetensors into the engine. */
export async function loadAdapter(
  dir: string,
  lora: LoraOptions,
  chosen: readonly LinearModule[],
  access: Pick<AdapterAccess, "set">,
): Promise<void> {
  const file = join(dir, "adapter_model.safetensors");
  if (!(await exists(file))) {
    throw new StatesetError("MODEL_NOT_FOUND", `${dir} has adapter_config.json but no adapter_model.safetensors.`);
  }
  const weights = await openWeights(file);
  try {
    const surplus = new Set(weights.names);
    for (const module of chosen) await loadModule(file, weights, lora.rank, module, surplus, access);
    const [extra] = surplus;
    if (extra !== undefined) {
      throw new StatesetError("MODEL_INVALID", `${file} holds ${extra}, which its configuration does not name.`);
    }
  } finally {
    await weights.close();
  }
}

async function loadModule(
  file: string,
  weights: Weights,
  rank: number,
  { path, layer, inSize, targets }: LinearModule,
  surplus: Set<string>,
  access: Pick<AdapterAccess, "set">,
): Promise<void> {
  const out = targets.reduce((sum, { rows }) => sum + rows, 0);
  const read = async (kind: "A" | "B") => {
    const name = `base_model.model.${path}.lora_${kind}.weight`;
    if (!weights.has(name)) throw new StatesetError("MODEL_INVALID", `${file} lacks ${name}.`);
    surplus.delete(name);
    const { shape } = weights.info(name);
    const wide = kind === "A" ? shape[0] : shape[1];
    const fits = shape.length === 2 && (kind === "A" ? shape[1] === inSize : shape[0] === out);
    if (!fits || (wide !== rank && wide !== rank * targets.length)) {
      const fitting = kind === "A" ? [rank, inSize] : [out, rank];
      throw new StatesetError(
        "MODEL_INVALID",
        `${name} in ${file} has the shape [${shape.join(", ")}]; the model under it wants [${fitting.join(", ")}].`,
        { hint: otherBase },
      );
    }
    return { data: await weights.read(name), wide };
  };
  const [a, b] = [await read("A"), await read("B")];
  if (a.wide !== b.wide) throw new StatesetError("MODEL_INVALID", `lora_A and lora_B of ${path} in ${file} disagree.`);
  const blocks = a.wide === rank ? 1 : targets.length;
  let row = 0;
  for (const [index, { target, rows }] of targets.entries()) {
    const block = blocks === 1 ? 0 : index;
    const partB = new Float32Array(rows * rank);
    for (let i = 0; i < rows; i++, row++) {
      const line = b.data.subarray(row * a.wide, (row + 1) * a.wide);
      if (line.some((value, col) => value !== 0 && Math.floor(col / rank) !== block)) {
        throw new StatesetError(
          "MODEL_UNSUPPORTED",
          `The adapter of ${path} in ${file} mixes ${targets.map(({ target }) => target).join(", ")} in one factor.`,
        );
      }
      partB.set(line.subarray(block * rank, (block + 1) * rank), i * rank);
    }
    await access.set(
      `layers.${layer}.${target}.lora_a`,
      a.data.slice(block * rank * inSize, (block + 1) * rank * inSize),
    );
    await access.set(`layers.${layer}.${target}.lora_b`, partB);
  }
}

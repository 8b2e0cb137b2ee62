import { join } from "node:path";
import { writeJsonAtomic } from "../../durable.ts";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { didYouMean } from "../../suggest.ts";
import { loraSchema } from "../option-schemas.ts";
import type { LoraOptions } from "../policy.ts";
import { readJsonObject } from "../tokenizer/model-json.ts";
import { openWeights, type TensorToWrite, type Weights, writeSafetensors } from "../weights/index.ts";
import { exists, makeFolder } from "./files.ts";
import type { LinearModule } from "./tensor-names.ts";

/**
 * Adapters in PEFT's layout. One module of Hugging Face can stand for several layers of the engine (GPT-2's c_attn is q, k and v side
 * by side). PEFT gives it one A [r, in] and one B [3h, r]; the engine has an A and a B for each. Reading copies A and cuts B.
 * Writing stacks the As to [3r, in] and sets the Bs on the diagonal of [3h, 3r], with rank and alpha of that module three
 * times as large (PEFT's rank_pattern and alpha_pattern): the same function, exactly.
 */
export interface AdapterAccess {
  read(name: string): Promise<Float32Array>;
  set(name: string, data: Float32Array): Promise<unknown>;
}

/** The adapter of a policy, and the modules it sits on. */
export interface Adapter {
  lora: LoraOptions;
  modules: readonly LinearModule[];
}

/** Checked, with its keys in one order, so that two can be compared. */
export function parseLora(options: unknown): LoraOptions {
  return parseOptions(loraSchema, options, "lora");
}

/** The modules that the options name. */
export function findTargets({ targetModules }: LoraOptions, modules: readonly LinearModule[]): LinearModule[] {
  if (targetModules === "all-linear") return [...modules];
  const named = (target: string, path: string) => path === target || path.endsWith(`.${target}`);
  for (const target of targetModules) {
    if (modules.some(({ path }) => named(target, path))) continue;
    const names = [...new Set(modules.map(({ path }) => path.split(".").at(-1)!))];
    throw new StatesetError("INVALID_OPTION", `lora.targetModules names "${target}", which the model does not have.`, {
      hint: didYouMean(target, names),
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
  const tensors: TensorToWrite[] = [];
  /** Modules that stand for several layers, and how many. */
  const widened = new Map<string, number>();
  for (const { path, layer, inSize, targets } of chosen) {
    const wide = rank * targets.length;
    const out = targets.reduce((sum, { rows }) => sum + rows, 0);
    const a = new Float32Array(wide * inSize);
    const b = new Float32Array(out * wide);
    let row = 0;
    for (const [index, { target, rows }] of targets.entries()) {
      a.set(await access.read(`layers.${layer}.${target}.lora_a`), index * rank * inSize);
      const part = await access.read(`layers.${layer}.${target}.lora_b`);
      for (let i = 0; i < rows; i++, row++) {
        b.set(part.subarray(i * rank, (i + 1) * rank), row * wide + index * rank);
      }
    }
    if (targets.length > 1) widened.set(moduleSuffix(path), targets.length);
    tensors.push({ name: `base_model.model.${path}.lora_A.weight`, shape: [wide, inSize], data: a });
    tensors.push({ name: `base_model.model.${path}.lora_B.weight`, shape: [out, wide], data: b });
  }
  const pattern = (value: number) => Object.fromEntries([...widened].map(([name, times]) => [name, value * times]));
  await makeFolder(dir);
  await writeSafetensors(join(dir, "adapter_model.safetensors"), tensors, { format: "pt" });
  writeJsonAtomic(join(dir, "adapter_config.json"), {
    peft_type: "LORA",
    task_type: "CAUSAL_LM",
    base_model_name_or_path: base,
    r: rank,
    lora_alpha: lora.alpha,
    lora_dropout: lora.dropout,
    target_modules: [...new Set(chosen.map(({ path }) => moduleSuffix(path)))],
    bias: "none",
    fan_in_fan_out: conv1d,
    inference_mode: true,
    init_lora_weights: true,
    modules_to_save: null,
    layers_to_transform: null,
    layers_pattern: null,
    use_rslora: false,
    use_dora: false,
    rank_pattern: pattern(rank),
    alpha_pattern: pattern(lora.alpha),
  });
}

/** `self_attn.q_proj` of `model.layers.0.self_attn.q_proj`: GPT-2 has two modules called c_proj, so the parent is part of it. */
function moduleSuffix(path: string): string {
  return path.split(".").slice(-2).join(".");
}

export interface AdapterConfig {
  base: string;
  lora: LoraOptions;
}

/** Reads adapter_config.json; undefined when the folder holds no adapter. */
export async function readAdapterConfig(dir: string): Promise<AdapterConfig | undefined> {
  const json = await readJsonObject(dir, "adapter_config.json");
  if (!json) return undefined;
  const where = join(dir, "adapter_config.json");
  const unsupported = (what: string) =>
    new StatesetError("MODEL_UNSUPPORTED", `${where} asks for ${what}, which the engine does not have.`, {
      hint: "Merge the adapter into its base model with peft (merge_and_unload) and load the result.",
    });
  if (json.peft_type !== "LORA") throw unsupported(`an adapter of type ${JSON.stringify(json.peft_type ?? null)}`);
  for (const key of ["use_dora", "use_rslora", "lora_bias"]) if (json[key] === true) throw unsupported(key);
  for (const key of ["modules_to_save", "layers_to_transform", "target_parameters", "trainable_token_indices"]) {
    const value = json[key];
    if (value !== undefined && value !== null && !(Array.isArray(value) && value.length === 0)) throw unsupported(key);
  }
  if (json.bias !== undefined && json.bias !== "none") throw unsupported(`bias = ${JSON.stringify(json.bias)}`);
  const { base_model_name_or_path: base, r, lora_alpha: alpha, lora_dropout: dropout, target_modules: targets } = json;
  const regex = typeof targets === "string" && targets !== "all-linear";
  if (regex) throw unsupported("target_modules given as a pattern");
  if (typeof base !== "string" || base === "" || !Number.isInteger(r) || typeof alpha !== "number") {
    throw new StatesetError("MODEL_INVALID", `${where} lacks base_model_name_or_path, r or lora_alpha.`);
  }
  const options = {
    rank: r,
    alpha,
    dropout: dropout ?? 0,
    targetModules: targets ?? "all-linear",
  };
  return { base, lora: parseOptions(loraSchema, options, where, "MODEL_INVALID") };
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
      throw new StatesetError("MODEL_INVALID", `${name} in ${file} has the shape [${shape}], which does not fit.`);
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
          `The adapter of ${path} in ${file} mixes q, k and v in one factor.`,
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

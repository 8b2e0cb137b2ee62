import { join } from "node:path";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { loraSchema } from "../option-schemas.ts";
import type { LoraOptions } from "../policy.ts";
import { isObject, type JsonObject, readJsonObject } from "../tokenizer/model-json.ts";

export interface AdapterConfig {
  base: string;
  lora: LoraOptions;
}

/** Keys that change nothing about a finished adapter, or that are read below. Every other one is refused unless it is empty or off. */
const understood = new Set([
  ...["alpha_pattern", "auto_mapping", "base_model_name_or_path", "bias", "fan_in_fan_out", "inference_mode"],
  ...["init_lora_weights", "layers_pattern", "lora_alpha", "lora_dropout", "megatron_core", "peft_type"],
  ...["peft_version", "qalora_group_size", "r", "rank_pattern", "revision", "runtime_config", "target_modules"],
  ...["task_type", "use_rslora", "ensure_weight_tying"],
]);

/** Reads adapter_config.json; undefined when the folder holds no adapter. */
export async function readAdapterConfig(dir: string): Promise<AdapterConfig | undefined> {
  const json = await readJsonObject(dir, "adapter_config.json");
  return json && parseAdapterConfig(json, join(dir, "adapter_config.json"));
}

export function parseAdapterConfig(json: JsonObject, where: string): AdapterConfig {
  const unsupported = (what: string) =>
    new StatesetError("MODEL_UNSUPPORTED", `${where} asks for ${what}, which the engine does not have.`, {
      hint: "Merge the adapter into its base model with peft (merge_and_unload) and load the result.",
    });
  if (json.peft_type !== "LORA") throw unsupported(`an adapter of type ${JSON.stringify(json.peft_type ?? null)}`);
  for (const [key, value] of Object.entries(json)) {
    if (!understood.has(key) && !isOff(value)) throw unsupported(`${key} = ${JSON.stringify(value)}`);
  }
  if (json.bias !== undefined && json.bias !== "none") throw unsupported(`bias = ${JSON.stringify(json.bias)}`);
  // To Python every text is true, "no" as well.
  const rootRank = json.use_rslora ?? false;
  if (typeof rootRank !== "boolean") throw unsupported(`use_rslora = ${JSON.stringify(rootRank)}`);
  // pissa, olora and their like change the base model's weights when the adapter is made: on the plain base it is another model.
  const start = json.init_lora_weights ?? true;
  if (typeof start !== "boolean" && start !== "gaussian") {
    throw unsupported(`init_lora_weights = ${JSON.stringify(start)}`);
  }
  const { base_model_name_or_path: base, r, lora_alpha: alpha, lora_dropout: dropout, target_modules: targets } = json;
  if (typeof targets === "string" && targets !== "all-linear") throw unsupported("target_modules given as a pattern");
  if (typeof base !== "string" || base === "" || !Number.isInteger(r) || typeof alpha !== "number") {
    throw new StatesetError("MODEL_INVALID", `${where} lacks base_model_name_or_path, r or lora_alpha.`);
  }
  const rank = r as number;
  const pattern = (key: "rank_pattern" | "alpha_pattern") => patternOf(json[key], key, where);
  const [ranks, alphas] = [pattern("rank_pattern"), pattern("alpha_pattern")];
  const options = {
    rank,
    ...effective({ rank, alpha, ranks, alphas, rootRank }, unsupported),
    dropout: dropout ?? 0,
    targetModules: targets ?? "all-linear",
  };
  return { base, lora: parseOptions(loraSchema, options, where, "MODEL_INVALID") };
}

/** `{}`, `[]`, null and false are how PEFT writes what is not used. */
function isOff(value: unknown): boolean {
  return (
    value === null ||
    value === false ||
    value === undefined ||
    (typeof value === "object" && Object.keys(value).length === 0)
  );
}

function patternOf(value: unknown, key: string, where: string): Record<string, number> {
  if (value === undefined || value === null) return {};
  const entries = isObject(value) ? Object.entries(value) : undefined;
  // PEFT takes the keys for regular expressions; names are all that is ever needed, and all that is safe to run.
  if (!entries?.every(([name, number]) => /^[\w.-]+$/.test(name) && typeof number === "number" && number > 0)) {
    throw new StatesetError("MODEL_UNSUPPORTED", `${key} in ${where} holds more than names of modules with numbers.`);
  }
  return value as Record<string, number>;
}

interface Scales {
  rank: number;
  alpha: number;
  ranks: Record<string, number>;
  alphas: Record<string, number>;
  /** rsLoRA divides by the root of the rank. */
  rootRank: boolean;
}

/**
 * The alphas that give every module the scale PEFT gives it, were its rank the adapter's. A module of another rank is read only where it
 * stands for several layers of the engine (see peft.ts), whose rank is then the adapter's: its tensors' shapes tell, when they are loaded.
 */
function effective(
  { rank, alpha, ranks, alphas, rootRank }: Scales,
  unsupported: (what: string) => StatesetError,
): Pick<LoraOptions, "alpha" | "alphaPattern"> {
  const scaled = (ofAlpha: number, ofRank: number) =>
    rootRank ? (ofAlpha / Math.sqrt(ofRank)) * rank : (ofAlpha / ofRank) * rank;
  const names = [...new Set([...Object.keys(ranks), ...Object.keys(alphas)])];
  for (const name of Object.keys(ranks)) {
    if (ranks[name]! % rank !== 0) throw unsupported(`rank_pattern (${name}: ${ranks[name]} beside r = ${rank})`);
  }
  const usual = scaled(alpha, rank);
  const own = names.map((name) => [name, scaled(alphas[name] ?? alpha, ranks[name] ?? rank)] as const);
  // A shorter name before a longer one would win, as it does in PEFT, so the order is kept.
  const different = own.some(([, value]) => value !== usual);
  return { alpha: usual, ...(different && { alphaPattern: Object.fromEntries(own) }) };
}

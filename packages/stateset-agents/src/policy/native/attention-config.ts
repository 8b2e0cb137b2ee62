import type { EngineConfig, RopeScaling } from "@stateset-agents/engine";
import { absentKeys } from "./absent-keys.ts";
import type { ConfigReader } from "./config-reader.ts";
import type { Architecture } from "./model-config.ts";

type Rope = Pick<EngineConfig, "ropeTheta" | "ropeScaling" | "rotaryDim">;

export function rope(architecture: Architecture, read: ConfigReader, headDim: number): Rope {
  const nested = read.object("rope_parameters") ?? read.object("rope_scaling");
  const plain = ropeOf(read, nested, "rope_theta", absentKeys[architecture].rope_theta ?? 10_000);
  const rotaryDim = Math.floor(headDim * partOf(read, nested));
  if (rotaryDim === headDim) return plain;
  if (architecture !== "phi3") throw read.unsupported("a partial_rotary_factor");
  return { ...plain, rotaryDim };
}

/** How much of a head is rotated. */
function partOf(read: ConfigReader, nested: ConfigReader | undefined): number {
  return nested?.has("partial_rotary_factor")
    ? nested.number("partial_rotary_factor")
    : read.number("partial_rotary_factor", 1);
}

/** SmolLM3 leaves one layer in four without positions, or those that a list marks with 0. */
export function unrotatedLayers(read: ConfigReader, layers: number): number[] {
  const interval = read.size("no_rope_layer_interval", 4);
  const marks =
    read.list("no_rope_layers") ?? Array.from({ length: layers }, (_, i) => Number((i + 1) % interval !== 0));
  if (marks.length !== layers || !marks.every((mark) => mark === 0 || mark === 1)) {
    throw read.invalid("no_rope_layers", `a list of ${layers} zeros and ones, one a layer`);
  }
  return marks.flatMap((mark, layer) => (mark === 0 ? [layer] : []));
}

/** `nested` says how, and may say the base as well; else `key` of the file does. */
function ropeOf(read: ConfigReader, nested: ConfigReader | undefined, key: string, absent: number): Rope {
  const ropeTheta = nested?.has("rope_theta") ? nested.number("rope_theta") : read.number(key, absent);
  return { ropeTheta, ropeScaling: nested && ropeScaling(nested) };
}

/** Gemma 3 turns by one base in layers with a window and by another one, perhaps scaled, in the others. */
export function gemmaRope(read: ConfigReader): Rope & Pick<EngineConfig, "localRopeTheta"> {
  const both = read.object("rope_parameters");
  const full = both ? both.object("full_attention") : read.object("rope_scaling");
  const sliding = ropeOf(read, both?.object("sliding_attention"), "rope_local_base_freq", 10_000);
  if (sliding.ropeScaling) throw read.unsupported("rope scaling in layers with a window");
  if (partOf(read, full) !== 1) throw read.unsupported("a partial_rotary_factor");
  return { ...ropeOf(read, full, "rope_theta", 1_000_000), localRopeTheta: sliding.ropeTheta };
}

function ropeScaling(scaling: ConfigReader): RopeScaling | undefined {
  const type = scaling.text("rope_type", () => scaling.text("type", "default"));
  switch (type) {
    case "default":
      return undefined;
    case "linear":
      return { type, factor: scaling.number("factor") };
    case "llama3":
      return {
        type,
        factor: scaling.number("factor"),
        lowFrequency: scaling.number("low_freq_factor"),
        highFrequency: scaling.number("high_freq_factor"),
        originalMaxPositions: scaling.size("original_max_position_embeddings"),
      };
    default:
      throw scaling.unsupported(`rope scaling of type "${type}"`, "Supported: default, linear, llama3.");
  }
}

const kinds: readonly unknown[] = ["full_attention", "sliding_attention"];

/**
 * The window, and the layers without it. Mistral's and Phi-3's hold for every layer when set; Qwen's only when switched on, and then from some
 * layer on; Gemma's for all but every sixth; SmolLM3's, switched on, where it does not rotate. A list of the kinds of layers goes before that.
 */
export function windows(
  architecture: Architecture,
  read: ConfigReader,
  layers: number,
): Pick<EngineConfig, "slidingWindow" | "fullLayers"> {
  const absent = absentKeys[architecture];
  const window = read.absent("sliding_window")
    ? absent.sliding_window
    : read.has("sliding_window")
      ? read.size("sliding_window")
      : undefined;
  if (architecture === "llama" || architecture === "granite") return { slidingWindow: undefined };
  const listed = architecture === "phi3" ? [] : fullLayers(read, layers);
  const switched = architecture !== "mistral" && architecture !== "gemma3_text" && architecture !== "phi3";
  if (window === undefined || (switched && !read.flag("use_sliding_window", false)))
    return { slidingWindow: undefined };
  const all = [...Array(layers).keys()];
  const unlisted = () => {
    if (architecture === "smollm3") {
      const unrotated = unrotatedLayers(read, layers);
      return all.filter((layer) => !unrotated.includes(layer));
    }
    if (switched) return all.slice(0, read.count("max_window_layers", absent.max_window_layers ?? layers));
    const pattern = architecture === "gemma3_text" ? read.size("sliding_window_pattern", 6) : undefined;
    return all.filter((layer) => pattern !== undefined && (layer + 1) % pattern === 0);
  };
  const full = listed ?? unlisted();
  if (full.length === layers) return { slidingWindow: undefined };
  return { slidingWindow: window, ...(full.length > 0 && { fullLayers: full }) };
}

/** Those that `layer_types` lets attend to everything; undefined where the file has no such list. */
function fullLayers(read: ConfigReader, layers: number): number[] | undefined {
  const types = read.list("layer_types");
  if (!types) return undefined;
  const odd = types.find((type) => !kinds.includes(type));
  if (odd !== undefined)
    throw read.unsupported(`layers of the kind ${JSON.stringify(odd)}`, `Supported: ${kinds.join(", ")}.`);
  if (types.length !== layers) throw read.invalid("layer_types", `a list of ${layers} kinds, one a layer`);
  return types.flatMap((type, layer) => (type === "full_attention" ? [layer] : []));
}

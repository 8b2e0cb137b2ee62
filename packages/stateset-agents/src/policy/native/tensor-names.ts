import type { EngineConfig } from "@stateset-agents/engine";
import type { Architecture } from "./model-config.ts";

/** A tensor of the engine inside one of Hugging Face: rows `from … from + rows` of it, seen as [out, in]; of a vector, its elements. */
export interface TensorPart {
  engine: string;
  from: number;
  rows: number;
  /** Where it does not fill these rows: the columns that it has. The rest of them is zero. */
  columns?: { from: number; count: number };
}

/** A tensor as Hugging Face stores it, and the tensors of the engine it holds. */
export interface TensorPlace {
  name: string;
  shape: readonly number[];
  /** Stored as [in, out] (GPT-2's Conv1D). */
  transposed: boolean;
  parts: readonly TensorPart[];
}

/** A linear layer that can carry an adapter, and the engine's layers it stands for (more than one: they lie side by side in its output). */
export interface LinearModule {
  /** Such as `model.layers.0.self_attn.q_proj`. */
  path: string;
  layer: number;
  inSize: number;
  targets: readonly { target: string; rows: number }[];
}

/** Every tensor of a model, under the names `transformers` writes. */
export function tensorPlaces(architecture: Architecture, c: EngineConfig): TensorPlace[] {
  return architecture === "gpt2" ? gpt2Places(c) : llamaPlaces(c, linearsOf(architecture, c));
}

/** Every linear layer inside the blocks (PEFT's "all-linear" means these). */
export function linearModules(architecture: Architecture, c: EngineConfig): LinearModule[] {
  return Array.from({ length: c.layers }, (_, layer) =>
    linearsOf(architecture, c).map(({ path, ...rest }) => ({
      path: `${architecture === "gpt2" ? "transformer.h" : "model.layers"}.${layer}.${path}`,
      layer,
      ...rest,
    })),
  ).flat();
}

/**
 * The tensors of an adapter, under the names `peft` writes. One module of Hugging Face can stand for several layers of the engine
 * (GPT-2's c_attn and Phi-3's qkv_proj are q, k and v side by side), with an A [rank, in] and a B [rows, rank] for each: their As are stacked, and their
 * Bs stand on the diagonal of one matrix. With rank and alpha of that module as many times as large it is the same function, exactly.
 */
export function adapterPlaces(modules: readonly LinearModule[], rank: number): TensorPlace[] {
  return modules.flatMap(({ path, layer, inSize, targets }) => {
    const wide = rank * targets.length;
    let row = 0;
    const parts = targets.map(({ target, rows }, index) => {
      const engine = `layers.${layer}.${target}`;
      const a: TensorPart = { engine: `${engine}.lora_a`, from: index * rank, rows: rank };
      const b: TensorPart = { engine: `${engine}.lora_b`, from: row, rows };
      if (targets.length > 1) b.columns = { from: index * rank, count: rank };
      row += rows;
      return { a, b };
    });
    const name = `base_model.model.${path}`;
    return [
      { name: `${name}.lora_A.weight`, shape: [wide, inSize], transposed: false, parts: parts.map(({ a }) => a) },
      { name: `${name}.lora_B.weight`, shape: [row, wide], transposed: false, parts: parts.map(({ b }) => b) },
    ];
  });
}

export function valuePlaces(hidden: number): TensorPlace[] {
  return [matrix("value.weight", "value.weight", 1, hidden), vector("value.bias", "value.bias", 1)];
}

/** Whether the tensor of the engine is, number for number, the one of the file. */
export function isDirect({ parts, transposed }: TensorPlace): boolean {
  return parts.length === 1 && !transposed;
}

type Linear = Omit<LinearModule, "layer"> & { bias: boolean };

function llamaLinears(c: EngineConfig): Linear[] {
  const [q, kv] = [c.heads * c.headDim, c.kvHeads * c.headDim];
  const one = (path: string, target: string, rows: number, inSize: number, bias: boolean): Linear => ({
    path,
    inSize,
    bias,
    targets: [{ target, rows }],
  });
  return [
    one("self_attn.q_proj", "q", q, c.hidden, c.qkvBias),
    one("self_attn.k_proj", "k", kv, c.hidden, c.qkvBias),
    one("self_attn.v_proj", "v", kv, c.hidden, c.qkvBias),
    one("self_attn.o_proj", "o", c.hidden, q, c.outBias),
    one("mlp.gate_proj", "gate", c.inter, c.hidden, c.mlpBias),
    one("mlp.up_proj", "up", c.inter, c.hidden, c.mlpBias),
    one("mlp.down_proj", "down", c.hidden, c.inter, c.mlpBias),
  ];
}

/** Phi-3 has q, k and v in one matrix, gate and up in another. */
function phi3Linears(c: EngineConfig): Linear[] {
  const [q, k, v, o, gate, up, down] = llamaLinears(c) as [Linear, Linear, Linear, Linear, Linear, Linear, Linear];
  const joined = (path: string, ...parts: Linear[]): Linear => ({
    ...parts[0]!,
    path,
    targets: parts.flatMap(({ targets }) => targets),
  });
  return [joined("self_attn.qkv_proj", q, k, v), o, joined("mlp.gate_up_proj", gate, up), down];
}

function linearsOf(architecture: Architecture, c: EngineConfig): Linear[] {
  if (architecture === "gpt2") return gpt2Linears(c);
  return architecture === "phi3" ? phi3Linears(c) : llamaLinears(c);
}

function gpt2Linears(c: EngineConfig): Linear[] {
  const h = c.hidden;
  const qkv = ["q", "k", "v"].map((target) => ({ target, rows: h }));
  return [
    { path: "attn.c_attn", inSize: h, bias: true, targets: qkv },
    { path: "attn.c_proj", inSize: h, bias: true, targets: [{ target: "o", rows: h }] },
    { path: "mlp.c_fc", inSize: h, bias: true, targets: [{ target: "up", rows: c.inter }] },
    { path: "mlp.c_proj", inSize: c.inter, bias: true, targets: [{ target: "down", rows: h }] },
  ];
}

function vector(name: string, engine: string, size: number): TensorPlace {
  return { name, shape: [size], transposed: false, parts: [{ engine, from: 0, rows: size }] };
}

function matrix(name: string, engine: string, rows: number, cols: number): TensorPlace {
  return { name, shape: [rows, cols], transposed: false, parts: [{ engine, from: 0, rows }] };
}

/** Weight and bias of a linear layer. */
function linearPlaces(path: string, layer: number, linear: Linear, transposed: boolean): TensorPlace[] {
  const rows = linear.targets.reduce((sum, target) => sum + target.rows, 0);
  let from = 0;
  const parts = linear.targets.map(({ target, rows }) => {
    const part = { engine: `layers.${layer}.${target}`, from, rows };
    from += rows;
    return part;
  });
  const named = (kind: string) => parts.map((part) => ({ ...part, engine: `${part.engine}.${kind}` }));
  const shape = transposed ? [linear.inSize, rows] : [rows, linear.inSize];
  const weight: TensorPlace = { name: `${path}.weight`, shape, transposed, parts: named("weight") };
  const bias: TensorPlace = { name: `${path}.bias`, shape: [rows], transposed: false, parts: named("bias") };
  return linear.bias ? [weight, bias] : [weight];
}

function llamaPlaces(c: EngineConfig, linears: readonly Linear[]): TensorPlace[] {
  const layers = Array.from({ length: c.layers }, (_, i) => {
    const hf = `model.layers.${i}`;
    return [
      vector(`${hf}.input_layernorm.weight`, `layers.${i}.attn_norm.weight`, c.hidden),
      ...(c.postNorm
        ? [
            vector(`${hf}.post_attention_layernorm.weight`, `layers.${i}.attn_post_norm.weight`, c.hidden),
            vector(`${hf}.pre_feedforward_layernorm.weight`, `layers.${i}.mlp_norm.weight`, c.hidden),
            vector(`${hf}.post_feedforward_layernorm.weight`, `layers.${i}.mlp_post_norm.weight`, c.hidden),
          ]
        : [vector(`${hf}.post_attention_layernorm.weight`, `layers.${i}.mlp_norm.weight`, c.hidden)]),
      ...(c.qkNorm
        ? [
            vector(`${hf}.self_attn.q_norm.weight`, `layers.${i}.q_norm.weight`, c.headDim),
            vector(`${hf}.self_attn.k_norm.weight`, `layers.${i}.k_norm.weight`, c.headDim),
          ]
        : []),
      ...linears.flatMap((linear) => linearPlaces(`${hf}.${linear.path}`, i, linear, false)),
    ];
  });
  return [
    matrix("model.embed_tokens.weight", "embed", c.vocab, c.hidden),
    ...layers.flat(),
    vector("model.norm.weight", "final_norm.weight", c.hidden),
    ...(c.tied ? [] : [matrix("lm_head.weight", "head", c.vocab, c.hidden)]),
  ];
}

function gpt2Places(c: EngineConfig): TensorPlace[] {
  const norm = (hf: string, engine: string) => [
    vector(`${hf}.weight`, `${engine}.weight`, c.hidden),
    vector(`${hf}.bias`, `${engine}.bias`, c.hidden),
  ];
  const layers = Array.from({ length: c.layers }, (_, i) => {
    const hf = `transformer.h.${i}`;
    return [
      ...norm(`${hf}.ln_1`, `layers.${i}.attn_norm`),
      ...norm(`${hf}.ln_2`, `layers.${i}.mlp_norm`),
      ...gpt2Linears(c).flatMap((linear) => linearPlaces(`${hf}.${linear.path}`, i, linear, true)),
    ];
  });
  return [
    matrix("transformer.wte.weight", "embed", c.vocab, c.hidden),
    matrix("transformer.wpe.weight", "position", c.maxPositions, c.hidden),
    ...layers.flat(),
    ...norm("transformer.ln_f", "final_norm"),
    ...(c.tied ? [] : [matrix("lm_head.weight", "head", c.vocab, c.hidden)]),
  ];
}

/** Parts that files may hold beside the parameters: masks and tables that are computed, and a head that is the embedding. */
export function isComputed(name: string, c: EngineConfig): boolean {
  if (c.tied && name === "lm_head.weight") return true;
  return /(\.|^)(attn\.bias|attn\.masked_bias|rotary_emb\.inv_freq)$/.test(name);
}

/** Rows of a [rows, cols] matrix from how the file stores the whole. */
export function extractPart(place: TensorPlace, part: TensorPart, data: Float32Array): Float32Array {
  if (place.shape.length === 1) return data.subarray(part.from, part.from + part.rows);
  const [first, second] = place.shape as [number, number];
  if (part.columns) {
    const { from, count } = part.columns;
    const out = new Float32Array(part.rows * count);
    for (let row = 0; row < part.rows; row++) {
      const start = (part.from + row) * second + from;
      out.set(data.subarray(start, start + count), row * count);
    }
    return out;
  }
  if (!place.transposed) return data.subarray(part.from * second, (part.from + part.rows) * second);
  const out = new Float32Array(part.rows * first);
  for (let row = 0; row < part.rows; row++) {
    for (let col = 0; col < first; col++) out[row * first + col] = data[col * second + part.from + row]!;
  }
  return out;
}

/** The inverse of extractPart: writes the rows into the whole. */
export function insertPart(place: TensorPlace, part: TensorPart, rows: Float32Array, whole: Float32Array): void {
  if (part.columns) {
    const { from, count } = part.columns;
    for (let row = 0; row < part.rows; row++) {
      whole.set(rows.subarray(row * count, (row + 1) * count), (part.from + row) * place.shape[1]! + from);
    }
    return;
  }
  if (place.shape.length === 1 || !place.transposed) {
    const width = place.shape.length === 1 ? 1 : place.shape[1]!;
    whole.set(rows, part.from * width);
    return;
  }
  const [first, second] = place.shape as [number, number];
  for (let row = 0; row < part.rows; row++) {
    for (let col = 0; col < first; col++) whole[col * second + part.from + row] = rows[row * first + col]!;
  }
}

/** Random models of real shapes, with the starter model's tokenizer beside them: what is measured does not depend on what they know. */
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { starterModelPath } from "@stateset-agents/starter-model";

const common = {
  model_type: "qwen3",
  vocab_size: 151_936,
  head_dim: 128,
  num_key_value_heads: 8,
  max_position_embeddings: 40_960,
  rope_theta: 1_000_000,
};

export const shapes = {
  "0.6B": {
    ...{ hidden_size: 1024, intermediate_size: 3072, num_hidden_layers: 28, num_attention_heads: 16 },
    ...{ tie_word_embeddings: true, ...common },
  },
  "1.7B": {
    ...{ hidden_size: 2048, intermediate_size: 6144, num_hidden_layers: 28, num_attention_heads: 16 },
    ...{ tie_word_embeddings: true, ...common },
  },
  "8B": {
    ...{ hidden_size: 4096, intermediate_size: 12_288, num_hidden_layers: 36, num_attention_heads: 32 },
    ...{ tie_word_embeddings: false, ...common },
  },
} as const;
export type Shape = keyof typeof shapes;

export interface Places {
  python: string;
  /** Where models are made, and found again. */
  dir: string;
  /** make_model.py. */
  script: string;
}

/** The folder of a model of this shape, made when it is not there yet. */
export function modelOf(shape: Shape, { python, dir, script }: Places): string {
  const folder = join(dir, `qwen3-${shape}`);
  if (existsSync(join(folder, "tokenizer.json"))) return folder;
  mkdirSync(folder, { recursive: true });
  const config = join(dir, `${shape}.json`);
  writeFileSync(config, JSON.stringify(shapes[shape]));
  execFileSync(python, [script, config, folder], { stdio: ["ignore", "ignore", "inherit"] });
  // Last: a folder with a tokenizer is whole.
  for (const file of ["tokenizer_config.json", "tokenizer.json"]) {
    copyFileSync(join(starterModelPath, file), join(folder, file));
  }
  return folder;
}

/** Operations on one token, forward and backward: 6 per parameter, and for each key that it sees and number of a head 6 for the score and 6 for the sum. */
export function flopsPerToken(shape: Shape, keysSeen: number): number {
  const { hidden_size: h, intermediate_size: i, num_hidden_layers: layers, num_attention_heads: heads } = shapes[shape];
  const { head_dim, num_key_value_heads: kv, vocab_size } = common;
  const matrices = layers * (h * head_dim * (2 * heads + 2 * kv) + 3 * h * i) + h * vocab_size;
  return 6 * matrices + 12 * layers * heads * head_dim * keysSeen;
}

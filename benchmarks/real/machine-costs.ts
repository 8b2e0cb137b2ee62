/** What a model costs on this machine: tokens a second, the seconds and the memory of a step of LoRA, beside the other programs in one run. */
import { availableParallelism } from "node:os";
import { isGguf } from "./model.ts";
import { dequantised, llama, ours, torch } from "./peers.ts";

/** The same work for all. */
export const decoding = { prompt: 32, tokens: 64, runs: 2 };
/** Rank and alpha are those of `lora: true`. */
export const step = { rank: 16, alpha: 32, sequences: 8, length: 128, steps: 3 };
export const batches = [1, 16] as const;

interface Decoded {
  perSecond: number;
}

interface Stepped {
  seconds: number;
  peakBytes: number;
}

export interface Speed {
  /** Tokens a second, by how many sequences at once. Transformers: the faster of f32 and bf16. */
  decode: Record<string, { ours: number; llama?: number; transformers?: number; transformersType?: string }>;
}

export interface Memory {
  ours: Stepped;
  peft?: Stepped;
}

export function measureSpeed(model: string, quick: boolean): Speed {
  const threads = availableParallelism();
  const plain = dequantised(model);
  const decode: Speed["decode"] = {};
  for (const batch of batches) {
    const work = { ...decoding, ...(quick && { tokens: 8, runs: 1 }), batch, threads };
    const own = ours<Decoded>("decode", { model, ...work });
    const llamas = isGguf(model) ? llama<Decoded>("decode", { model, ...work }) : undefined;
    const types = plain
      ? ["float32", "bfloat16"].flatMap((dtype) => {
          const found = torch<Decoded>("decode", { folder: plain.folder, dtype, ...work });
          return found ? [{ dtype, ...found }] : [];
        })
      : [];
    const best = types.sort((a, b) => b.perSecond - a.perSecond)[0];
    decode[batch] = {
      ours: rounded(own.perSecond),
      ...(llamas && { llama: rounded(llamas.perSecond) }),
      ...(best && { transformers: rounded(best.perSecond), transformersType: best.dtype }),
    };
  }
  return { decode };
}

export function measureMemory(model: string, quick: boolean): Memory {
  const work = { ...step, ...(quick && { steps: 1 }), threads: availableParallelism() };
  const plain = dequantised(model);
  const peft = plain && torch<Stepped>("train", { folder: plain.folder, ...work });
  return { ours: ours<Stepped>("train", { model, ...work }), ...(peft && { peft }) };
}

const rounded = (value: number) => Number(value.toFixed(1));

import { type Adapter, alphaOf } from "./peft.ts";
import type { Adjust } from "./weights.ts";

/** Adds (alpha / rank)·B·A to the matrices that have an adapter; leaves others as they are. */
export function mergeInto(adapter: Adapter | undefined, read: (name: string) => Promise<Float32Array>): Adjust {
  if (!adapter) return async () => {};
  const { rank } = adapter.lora;
  const sizes = new Map<string, { rows: number; inSize: number; alpha: number }>(
    adapter.modules.flatMap(({ path, layer, inSize, targets }) =>
      targets.map(
        ({ target, rows }) =>
          [`layers.${layer}.${target}`, { rows, inSize, alpha: alphaOf(adapter.lora, path) }] as const,
      ),
    ),
  );
  return async (name, data) => {
    const layer = name.replace(/\.weight$/, "");
    const size = name.endsWith(".weight") ? sizes.get(layer) : undefined;
    if (!size) return;
    const a = await read(`${layer}.lora_a`);
    const b = await read(`${layer}.lora_b`);
    const { rows, inSize, alpha } = size;
    const line = new Float64Array(inSize);
    for (let row = 0; row < rows; row++) {
      line.fill(0);
      for (let r = 0; r < rank; r++) {
        const factor = b[row * rank + r]!;
        if (factor === 0) continue;
        for (let col = 0; col < inSize; col++) line[col]! += factor * a[r * inSize + col]!;
      }
      for (let col = 0; col < inSize; col++) data[row * inSize + col]! += (alpha / rank) * line[col]!;
    }
  };
}

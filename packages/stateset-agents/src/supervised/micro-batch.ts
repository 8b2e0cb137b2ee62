import { buildTokenTree, type TreeChain } from "../conversation/token-tree.ts";
import type { MicroBatch } from "../learning/micro-batch.ts";

/** Chains as one token tree, with the places of their learn tokens; `gather` and `scatter` of training/batch.ts work on it. */
export function microBatchOf(chains: readonly TreeChain[]): MicroBatch {
  const merged = buildTokenTree(chains);
  const places = chains.map((chain, member) => {
    const positions = merged.positions[member]!;
    const own: number[] = [];
    // The first token has no context to be predicted from.
    for (let i = 1; i < chain.learn.length; i++) if (chain.learn[i] === 1) own.push(positions[i]!);
    return Int32Array.from(own);
  });
  return { members: chains.map((_, i) => i), merged, places, temperature: 1 };
}

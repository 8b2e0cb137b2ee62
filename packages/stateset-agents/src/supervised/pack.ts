import type { TreeChain } from "../conversation/token-tree.ts";

/**
 * Deals units (an example, or the two chains of a pair) into micro-batches of at most `tokenBudget` distinct tokens.
 * Units that begin alike come together, so that the token tree shares their prefixes. A unit larger than the budget goes alone.
 * Returns indices into `units`. Order and result depend on the units alone.
 */
export function packUnits(units: readonly (readonly TreeChain[])[], tokenBudget: number): number[][] {
  const order = units.map((_, i) => i).sort((a, b) => compareTokens(units[a]![0]!, units[b]![0]!) || a - b);
  const packs: number[][] = [];
  let size = Number.POSITIVE_INFINITY;
  let previous: TreeChain | undefined;
  for (const index of order) {
    const unit = units[index]!;
    const shared = size + newTokens(unit, previous);
    if (shared <= tokenBudget) {
      packs.at(-1)!.push(index);
      size = shared;
    } else {
      packs.push([index]);
      size = newTokens(unit, undefined);
    }
    previous = unit.at(-1);
  }
  return packs;
}

/** What the unit's chains add to a tree that ends with `previous`: exact for sorted chains, else never too small. */
function newTokens(unit: readonly TreeChain[], previous: TreeChain | undefined): number {
  let added = 0;
  let before = previous;
  for (const chain of unit) {
    added += chain.tokens.length - (before ? sharedLength(before.tokens, chain.tokens) : 0);
    before = chain;
  }
  return added;
}

/** How many tokens two sequences have in common at their start. */
export function sharedLength(a: Int32Array, b: Int32Array): number {
  const most = Math.min(a.length, b.length);
  let n = 0;
  while (n < most && a[n] === b[n]) n++;
  return n;
}

function compareTokens(a: TreeChain, b: TreeChain): number {
  const n = sharedLength(a.tokens, b.tokens);
  return (a.tokens[n] ?? -1) - (b.tokens[n] ?? -1);
}

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { buildTokenTree, type MergedChains, type TreeChain } from "./token-tree.ts";

const chain = (tokens: number[], learn: number[] = []): TreeChain => ({
  tokens: Int32Array.from(tokens),
  learn: Uint8Array.from(tokens, (_, i) => learn[i] ?? 0),
});

/** One trie node per token: the obvious, slow way to say which tokens are shared. */
function naivePaths(chains: readonly TreeChain[]): { distinct: number; key: (chain: number, i: number) => string } {
  const key = (c: number, i: number) => chains[c]!.tokens.slice(0, i + 1).join(",");
  const keys = new Set<string>();
  for (const [c, { tokens }] of chains.entries()) tokens.forEach((_, i) => void keys.add(key(c, i)));
  return { distinct: keys.size, key };
}

/** The node that holds tree token i. */
function nodeOf({ tree }: MergedChains, i: number): number {
  return tree.nodeStart.findLastIndex((start, n) => n < tree.nodeParent.length && start <= i);
}

describe("buildTokenTree", () => {
  it("keeps a shared prompt once and gives each reply its own branch", () => {
    const { tree, positions, predecessor } = buildTokenTree([
      chain([1, 2, 3, 7, 8], [0, 0, 0, 1, 1]),
      chain([1, 2, 3, 9], [0, 0, 0, 1]),
    ]);
    expect([...tree.tokens]).toEqual([1, 2, 3, 7, 8, 9]);
    expect([...tree.nodeStart]).toEqual([0, 3, 5, 6]);
    expect([...tree.nodeParent]).toEqual([-1, 0, 0]);
    expect([...tree.wanted]).toEqual([0, 0, 0, 1, 1, 1]);
    expect(positions.map((p) => [...p])).toEqual([
      [0, 1, 2, 3, 4],
      [0, 1, 2, 5],
    ]);
    expect([...predecessor]).toEqual([-1, 0, 1, 2, 3, 2]);
  });

  it("handles no chains, an empty chain, a chain inside another, and chains with nothing in common", () => {
    expect(buildTokenTree([]).tree.nodeStart).toEqual(Int32Array.of(0));
    const merged = buildTokenTree([chain([1, 2, 3]), chain([]), chain([1, 2]), chain([5])]);
    expect([...merged.tree.tokens]).toEqual([1, 2, 3, 5]);
    expect([...merged.tree.nodeParent]).toEqual([-1, -1]);
    expect([...merged.positions[2]!]).toEqual([0, 1]);
  });

  it("never wants the first token of a root: nothing precedes it", () => {
    expect([...buildTokenTree([chain([4, 5], [1, 1])]).tree.wanted]).toEqual([0, 1]);
  });

  it("agrees with a naive trie on any chains", () => {
    const chains = fc.array(
      fc.array(fc.tuple(fc.nat(2), fc.nat(1)), { maxLength: 12 }).map((pairs) =>
        chain(
          pairs.map(([t]) => t),
          pairs.map(([, l]) => l),
        ),
      ),
      { maxLength: 8 },
    );
    fc.assert(
      fc.property(chains, (input) => {
        const merged = buildTokenTree(input);
        const { tree, positions, predecessor } = merged;
        const naive = naivePaths(input);
        expect(tree.tokens.length).toBe(naive.distinct);
        expect(tree.nodeStart.length).toBe(tree.nodeParent.length + 1);
        for (const [n, parent] of tree.nodeParent.entries()) expect(parent).toBeLessThan(n);

        const byKey = new Map<string, number>();
        const wanted = new Uint8Array(tree.tokens.length);
        for (const [c, { tokens, learn }] of input.entries()) {
          tokens.forEach((token, i) => {
            const at = positions[c]![i]!;
            expect(tree.tokens[at]).toBe(token);
            expect(predecessor[at]).toBe(i === 0 ? -1 : positions[c]![i - 1]);
            const known = byKey.get(naive.key(c, i)) ?? at;
            expect(at).toBe(known);
            byKey.set(naive.key(c, i), at);
            if (i > 0 && learn[i] === 1) wanted[at] = 1;
          });
        }
        expect(new Set(byKey.values()).size).toBe(naive.distinct);
        expect(tree.wanted).toEqual(wanted);
        // The predecessor of a node's first token is its parent's last token, as the engine will read it.
        for (const i of tree.tokens.keys()) {
          const node = nodeOf(merged, i);
          const parent = tree.nodeParent[node]!;
          const before = i > tree.nodeStart[node]! ? i - 1 : parent < 0 ? -1 : tree.nodeStart[parent + 1]! - 1;
          expect(predecessor[i]).toBe(before);
        }
      }),
      { numRuns: 200 },
    );
  });

  it("is linear: a chain of 200,000 tokens does not overflow the stack", () => {
    const long = Array.from({ length: 200_000 }, (_, i) => i % 7);
    const merged = buildTokenTree([chain(long), chain([...long.slice(0, 100_000), 9])]);
    expect(merged.tree.tokens.length).toBe(200_001);
    expect(merged.tree.nodeParent.length).toBe(3);
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createRandom } from "../random.ts";
import { pack, packAlike, type Unit } from "./pack.ts";

const chain = fc
  .array(fc.integer({ min: 0, max: 3 }), { minLength: 1, maxLength: 12 })
  .map((tokens) => ({ tokens: Int32Array.from(tokens), learn: new Uint8Array(tokens.length) }));
const unit = fc.record({
  chains: fc.array(chain, { minLength: 1, maxLength: 2 }),
  group: fc.integer({ min: 0, max: 4 }),
  temperature: fc.constantFrom(1, 1, 1, 0.7),
});

/** Distinct tokens of some units, counted the slow way. */
function distinct(units: readonly Unit[], members: readonly number[]): number {
  const prefixes = members.flatMap((i) =>
    units[i]!.chains.flatMap(({ tokens }) => Array.from(tokens, (_, n) => tokens.slice(0, n + 1).join())),
  );
  return new Set(prefixes).size;
}

describe.each([
  ["in order", (units: readonly Unit[], budget: number) => pack(units, units.keys(), budget)],
  ["alike", packAlike],
])("packing %s", (_, packed) => {
  it("deals every unit once, keeps to the budget where it can, and never mixes temperatures", () => {
    fc.assert(
      fc.property(fc.array(unit), fc.integer({ min: 4, max: 40 }), (units, budget) => {
        const packs = packed(units, budget);
        expect(packs.flat().sort((a, b) => a - b)).toEqual(units.map((_, i) => i));
        for (const members of packs) {
          if (members.length > 1) expect(distinct(units, members)).toBeLessThanOrEqual(budget);
          expect(new Set(members.map((i) => units[i]!.temperature)).size).toBe(1);
        }
      }),
      { seed: 1 },
    );
  });
});

it("keeps the given order, and neighbours of one group together where they fit", () => {
  fc.assert(
    fc.property(fc.array(unit), fc.integer({ min: 4, max: 40 }), (units, budget) => {
      const packs = pack(units, units.keys(), budget);
      expect(packs.flat()).toEqual(units.map((_, i) => i));
      packs.slice(1).forEach((members, i) => {
        // A group is cut only where it is larger than the budget by itself.
        const [before, after] = [units[packs[i]!.at(-1)!]!, units[members[0]!]!];
        if (before.group !== after.group || before.temperature !== after.temperature) return;
        let first = members[0]!;
        while (units[first - 1]?.group === after.group && units[first - 1]?.temperature === after.temperature) first--;
        let last = members[0]!;
        while (units[last + 1]?.group === after.group && units[last + 1]?.temperature === after.temperature) last++;
        const group = Array.from({ length: last - first + 1 }, (_, n) => first + n);
        expect(distinct(units, group)).toBeGreaterThan(budget);
      });
    }),
    { seed: 2 },
  );
});

it("takes time linear in the tokens: 512 conversations that share 1,000 of them", () => {
  const random = createRandom(5);
  const shared = Array.from({ length: 1000 }, () => random.below(5000));
  let reads = 0;
  const units = Array.from({ length: 512 }, (_, i): Unit => {
    const own = Int32Array.from([...shared, ...Array.from({ length: 50 }, () => random.below(5000))]);
    const counted = new Proxy(own, {
      get(target, key) {
        if (typeof key === "string" && /^\d+$/.test(key)) reads++;
        const value = Reflect.get(target, key);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    return { chains: [{ tokens: counted, learn: new Uint8Array(own.length) }], group: i >> 3 };
  });
  const packs = pack(units, units.keys(), 8192);
  expect(packs.flat()).toHaveLength(512);
  // Every token is read a handful of times, not once for every other conversation.
  expect(reads).toBeLessThan(12 * 512 * 1050);
});

/** Deals work into forward passes of at most `tokenBudget` distinct tokens. Who goes with whom depends on the units, their order and the budget alone. */
import { PrefixForest, type TreeChain } from "../conversation/token-tree.ts";

/** What goes into one pass whole: a conversation, an example, the two sides of a pair. */
export interface Unit {
  chains: readonly TreeChain[];
  /** Neighbours of one group stay together where they fit. */
  group?: number;
  /** Tokens of different temperatures cannot be scored in one pass. Default 1. */
  temperature?: number;
}

/** In the given order. A unit larger than the budget goes alone. Gives indices into `units`; takes time linear in the tokens. */
export function pack(units: readonly Unit[], order: Iterable<number>, tokenBudget: number): number[][] {
  const packs: number[][] = [];
  let open: number[] = [];
  let forest = new PrefixForest();
  const close = () => {
    if (open.length > 0) packs.push(open);
    open = [];
    forest = new PrefixForest();
  };
  const add = (index: number) => {
    for (const { tokens } of units[index]!.chains) forest.add(tokens);
  };
  for (const group of neighbours(units, order)) {
    if (open.length > 0) {
      if (temperatureOf(units[open[0]!]!) !== temperatureOf(units[group[0]!]!)) close();
      else {
        group.forEach(add);
        if (forest.size <= tokenBudget) {
          open.push(...group);
          continue;
        }
        close();
      }
    }
    for (const index of group) {
      add(index);
      if (open.length > 0 && forest.size > tokenBudget) {
        close();
        add(index);
      }
      open.push(index);
    }
  }
  close();
  return packs;
}

/** Units that begin alike come together, so that their common beginnings are computed once. */
export function packAlike(units: readonly Unit[], tokenBudget: number): number[][] {
  const first = (index: number) => units[index]!.chains[0]!.tokens;
  const order = units.map((_, i) => i).sort((a, b) => compareTokens(first(a), first(b)) || a - b);
  return pack(units, order, tokenBudget);
}

function temperatureOf({ temperature = 1 }: Unit): number {
  return temperature;
}

/** Runs of one group and one temperature; a unit without a group is one alone. */
function neighbours(units: readonly Unit[], order: Iterable<number>): number[][] {
  const runs: number[][] = [];
  for (const index of order) {
    const run = runs.at(-1);
    const [before, unit] = [run && units[run[0]!]!, units[index]!];
    const together =
      before?.group !== undefined && before.group === unit.group && temperatureOf(before) === temperatureOf(unit);
    if (together) run!.push(index);
    else runs.push([index]);
  }
  return runs;
}

/** How many tokens two sequences have in common at their start. */
export function sharedLength(a: Int32Array, b: Int32Array): number {
  const most = Math.min(a.length, b.length);
  let n = 0;
  while (n < most && a[n] === b[n]) n++;
  return n;
}

function compareTokens(a: Int32Array, b: Int32Array): number {
  const n = sharedLength(a, b);
  return (a[n] ?? -1) - (b[n] ?? -1);
}

/**
 * Units as one token tree, and numbers between the two: per-token numbers of the tree are gathered to the units' learn tokens,
 * derivatives scattered back. Tokens that units share sit in the tree once; their derivatives add up there.
 */
import { learnPlaces } from "../conversation/learn-tokens.ts";
import { buildTokenTree, type MergedChains } from "../conversation/token-tree.ts";
import { pack, packAlike, type Unit } from "./pack.ts";

export interface MicroBatch {
  /** Indices of its units in what it was packed of. */
  members: readonly number[];
  merged: MergedChains;
  temperature: number;
  /** Per member: the tree index of each learn token. [members][tokens] */
  places: Int32Array[];
}

function microBatch(units: readonly Unit[], members: readonly number[]): MicroBatch {
  const own = members.map((member) => units[member]!);
  const merged = buildTokenTree(own.flatMap(({ chains }) => chains));
  let chain = 0;
  const places = own.map(({ chains }) =>
    Int32Array.from(
      chains.flatMap((one) => {
        const positions = merged.positions[chain++]!;
        return learnPlaces(one).map((place) => positions[place]!);
      }),
    ),
  );
  return { members, merged, places, temperature: own[0]?.temperature ?? 1 };
}

/** Some of the units, in order, packed by the budget. Trees are built one at a time. */
export function* microBatches(
  units: readonly Unit[],
  members: Iterable<number>,
  tokenBudget: number,
): Generator<MicroBatch> {
  for (const packed of pack(units, members, tokenBudget)) yield microBatch(units, packed);
}

/** All units, those that begin alike together. */
export function* alikeBatches(units: readonly Unit[], tokenBudget: number): Generator<MicroBatch> {
  for (const packed of packAlike(units, tokenBudget)) yield microBatch(units, packed);
}

/** Per-token numbers of the tree, for each member's learn tokens. [members][tokens] */
export function gather(batch: MicroBatch, numbers: Float32Array): Float32Array[] {
  return batch.places.map((places) => Float32Array.from(places, (place) => numbers[place]!));
}

/** V(state before each learn token): the value head's number at the token before it. [members][tokens] */
export function gatherValues(batch: MicroBatch, values: Float32Array): Float32Array[] {
  const { predecessor } = batch.merged;
  return batch.places.map((places) => Float32Array.from(places, (place) => values[predecessor[place]!]!));
}

/** The transpose of gather(): derivatives by learn token, added up by tree token. */
export function scatter(batch: MicroBatch, derivatives: readonly Float32Array[]): Float32Array {
  return scatterTo(batch, derivatives, (place) => place);
}

/** The transpose of gatherValues(). */
export function scatterValues(batch: MicroBatch, derivatives: readonly Float32Array[]): Float32Array {
  return scatterTo(batch, derivatives, (place) => batch.merged.predecessor[place]!);
}

function scatterTo(
  batch: MicroBatch,
  derivatives: readonly Float32Array[],
  target: (place: number) => number,
): Float32Array {
  // Sums in float64, so that the order of members does not show in the last bit more than it must.
  const sums = new Float64Array(batch.merged.tree.tokens.length);
  batch.places.forEach((places, member) => {
    const own = derivatives[member]!;
    for (let t = 0; t < places.length; t++) sums[target(places[t]!)]! += own[t]!;
  });
  return Float32Array.from(sums);
}

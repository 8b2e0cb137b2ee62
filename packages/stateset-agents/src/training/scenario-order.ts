import type { Scenario } from "../environment/scenario.ts";
import { createRandom, seedOf } from "../random.ts";

/**
 * The scenario at each position of a run. Without weights every scenario comes once per round, each round newly shuffled; with weights
 * each position is drawn by them. It depends on (seed, position, weights) alone, so the position is all a checkpoint needs.
 * The round and the weights met last are kept: drawing from 100,000 scenarios costs what drawing from ten does.
 */
export class ScenarioOrder<S extends Scenario = Scenario> {
  readonly #scenarios: readonly S[];
  readonly #seed: number;
  #round: { number: number; order: number[] } | undefined;
  #weighted: { weights: Readonly<Record<string, number>>; sums: Float64Array } | undefined;

  constructor(scenarios: readonly S[], seed: number) {
    this.#scenarios = scenarios;
    this.#seed = seed;
  }

  at(position: number, weights: Readonly<Record<string, number>>): S {
    const sums = this.#sumsOf(weights);
    const total = sums?.at(-1) ?? 0;
    if (!sums || total <= 0) return this.#inRound(position);
    const target = createRandom(seedOf(this.#seed, "scenario", position)).next() * total;
    return this.#scenarios[firstAbove(sums, target)]!;
  }

  #inRound(position: number): S {
    const count = this.#scenarios.length;
    const number = Math.floor(position / count);
    if (this.#round?.number !== number) {
      const random = createRandom(seedOf(this.#seed, "scenario-round", number));
      this.#round = { number, order: random.shuffled(this.#scenarios.map((_, index) => index)) };
    }
    return this.#scenarios[this.#round.order[position % count]!]!;
  }

  /** Running sums of the weights; undefined when there are none. */
  #sumsOf(weights: Readonly<Record<string, number>>): Float64Array | undefined {
    if (Object.keys(weights).length === 0) return undefined;
    // Compared by content: a callback may have changed a weight in place.
    if (!this.#weighted || !sameWeights(this.#weighted.weights, weights)) {
      const sums = new Float64Array(this.#scenarios.length);
      let sum = 0;
      for (const [i, { id }] of this.#scenarios.entries()) {
        sum += Math.max(0, weights[id] ?? 1);
        sums[i] = sum;
      }
      this.#weighted = { weights: { ...weights }, sums };
    }
    return this.#weighted.sums;
  }
}

function sameWeights(a: Readonly<Record<string, number>>, b: Readonly<Record<string, number>>): boolean {
  const ids = Object.keys(b);
  return ids.length === Object.keys(a).length && ids.every((id) => a[id] === b[id]);
}

/** The first index whose sum is above the target; scenarios of weight 0 are never it. */
function firstAbove(sums: Float64Array, target: number): number {
  let [low, high] = [0, sums.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sums[middle]! > target) high = middle;
    else low = middle + 1;
  }
  return low;
}

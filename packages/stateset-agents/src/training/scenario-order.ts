import type { Scenario } from "../environment/scenario.ts";
import { createRandom, seedOf } from "../random.ts";
import type { ScenarioSampler } from "./scenario-sampler.ts";

/**
 * The scenario at each position of a run. Where all weigh the same every scenario comes once per round, each round newly shuffled;
 * otherwise each position is drawn by the weights. It depends on (seed, position, weights) alone: a checkpoint needs the position, and
 * what the sampler has seen where there is one.
 */
export class ScenarioOrder<S extends Scenario = Scenario> {
  readonly scenarios: readonly S[];
  readonly #seed: number;
  /** Weighs scenarios by how they went. */
  readonly sampler: ScenarioSampler | undefined;
  /** The round met last: shuffling 100,000 scenarios for every draw would take longer than the draw is worth. */
  #round: { number: number; order: number[] } | undefined;

  constructor(scenarios: readonly S[], seed: number, sampler?: ScenarioSampler) {
    this.scenarios = scenarios;
    this.#seed = seed;
    this.sampler = sampler;
  }

  /** The draws of one step, whose weights stay as they are now. */
  weightedBy(weights: Readonly<Record<string, number>>): (position: number) => S {
    const sampled = this.sampler?.weights(this.scenarios);
    if (Object.keys(weights).length === 0 && !sampled) return (position) => this.#inRound(position);
    const weightOf = ({ id }: S) => Math.max(0, weights[id] ?? 1) * (sampled?.(id) ?? 1);
    const first = this.scenarios[0] && weightOf(this.scenarios[0]);
    if (this.scenarios.every((scenario) => weightOf(scenario) === first)) return (position) => this.#inRound(position);
    const sums = this.#sumsOf(weightOf);
    const total = sums.at(-1)!;
    return (position) => {
      const target = createRandom(seedOf(this.#seed, "scenario", position)).next() * total;
      return this.scenarios[firstAbove(sums, target)]!;
    };
  }

  find(id: string): S | undefined {
    return this.scenarios.find((scenario) => scenario.id === id);
  }

  #inRound(position: number): S {
    const count = this.scenarios.length;
    const number = Math.floor(position / count);
    if (this.#round?.number !== number) {
      const random = createRandom(seedOf(this.#seed, "scenario-round", number));
      this.#round = { number, order: random.shuffled(this.scenarios.map((_, index) => index)) };
    }
    return this.scenarios[this.#round.order[position % count]!]!;
  }

  #sumsOf(weightOf: (scenario: S) => number): Float64Array {
    let sum = 0;
    return Float64Array.from(this.scenarios, (scenario) => {
      sum += weightOf(scenario);
      return sum;
    });
  }
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

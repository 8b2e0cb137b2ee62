import type { Scenario } from "../environment/scenario.ts";
import { createRandom, seedOf } from "../random.ts";

/**
 * The scenario at a position of the run. Without weights every scenario comes once per round, each round newly shuffled;
 * with weights each position is drawn by them. It depends on (seed, position, weights) alone, so the position is all a checkpoint needs.
 */
export function scenarioAt<S extends Scenario>(
  scenarios: readonly S[],
  seed: number,
  position: number,
  weights: Readonly<Record<string, number>>,
): S {
  const n = scenarios.length;
  const weightOf = (scenario: S) => Math.max(0, weights[scenario.id] ?? 1);
  const total = scenarios.reduce((sum, scenario) => sum + weightOf(scenario), 0);
  if (Object.keys(weights).length === 0 || total <= 0) {
    const round = Math.floor(position / n);
    const order = createRandom(seedOf(seed, "scenario-round", round)).shuffled(scenarios.map((_, index) => index));
    return scenarios[order[position % n]!]!;
  }
  let left = createRandom(seedOf(seed, "scenario", position)).next() * total;
  for (const scenario of scenarios) {
    left -= weightOf(scenario);
    if (left < 0) return scenario;
  }
  return scenarios.findLast((scenario) => weightOf(scenario) > 0)!;
}

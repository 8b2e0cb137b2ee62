/**
 * How often each scenario is drawn, by how its conversations went. Of N scenarios the i-th is drawn with probability
 *   p_i = floor / N + (1 − floor) · w_i / Σ w
 * "curriculum"  w = the variance of its rewards: what always fails or always succeeds teaches nothing by comparison, so draws move from
 *               scenario to scenario as these become learnable and then easy. For pass/fail that is p(1 − p), as in Foster et al.,
 *               "Learning to Reason at the Frontier of Learnability", 2025.
 * "hard"        w = how far its mean reward is below the highest reward of the run: what went badly is played again sooner.
 * Mean and variance of a scenario's rewards are moving ones, in which its last group counts half. One that has not been drawn yet has the
 * largest weight there is.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import type { RunPart } from "../run/checkpoint/store.ts";

export const samplerSchema = z
  .strictObject({
    kind: z
      .enum(["uniform", "curriculum", "hard"])
      .default("uniform")
      .describe(
        "All alike, each once per round; or more often those whose rewards differ (curriculum); or those with low rewards (hard).",
      ),
    floor: z
      .number()
      .gt(0)
      .max(1)
      .default(0.2)
      .describe(
        "Share of the draws that stays spread evenly: no scenario is drawn less than floor / scenarios of the time.",
      ),
  })
  .prefault({})
  .describe("Which scenarios are drawn how often.");

/** Of a scenario's rewards, half of the last group and half of all before. */
interface Seen {
  mean: number;
  variance: number;
}

export class ScenarioSampler implements RunPart {
  readonly #kind: "curriculum" | "hard";
  readonly #floor: number;
  readonly #seen = new Map<string, Seen>();
  /** The highest reward of the run. */
  #highest = Number.NEGATIVE_INFINITY;

  constructor({ kind, floor }: { kind: "curriculum" | "hard"; floor: number }) {
    this.#kind = kind;
    this.#floor = floor;
  }

  /** Once a step is over: what was sampled in it. */
  note(groups: readonly TrajectoryGroup[]): void {
    for (const { scenarioId, trajectories } of groups) {
      // What broke its environment says nothing of how hard the scenario is.
      const rewards = trajectories.filter(({ ended }) => ended !== "failed").map(({ reward }) => reward.score);
      if (rewards.length === 0) continue;
      const now = momentsOf(rewards);
      const before = this.#seen.get(scenarioId) ?? now;
      this.#seen.set(scenarioId, {
        mean: (before.mean + now.mean) / 2,
        variance: (before.variance + now.variance) / 2 + ((before.mean - now.mean) / 2) ** 2,
      });
      this.#highest = Math.max(this.#highest, ...rewards);
    }
  }

  /** N · p of each scenario, by id; undefined while nothing tells them apart. */
  weights(scenarios: readonly { id: string }[]): ((id: string) => number) | undefined {
    const weights = new Map<string, number>();
    let largest = 0;
    for (const [id, seen] of this.#seen) {
      const weight = this.#weightOf(seen);
      weights.set(id, weight);
      largest = Math.max(largest, weight);
    }
    if (largest === 0) return undefined;
    const total = scenarios.reduce((sum, { id }) => sum + (weights.get(id) ?? largest), 0);
    const count = scenarios.length;
    return (id) => this.#floor + ((1 - this.#floor) * count * (weights.get(id) ?? largest)) / total;
  }

  #weightOf({ mean, variance }: Seen): number {
    return this.#kind === "curriculum" ? variance : Math.max(0, this.#highest - mean);
  }

  async snapshot(dir: string): Promise<undefined> {
    mkdirSync(dir, { recursive: true });
    const scenarios = [...this.#seen].map(([id, { mean, variance }]) => [id, mean, variance]);
    const highest = Number.isFinite(this.#highest) ? this.#highest : null;
    writeFileSync(join(dir, "scenarios.json"), JSON.stringify({ highest, scenarios }));
  }

  async restore(dir: string): Promise<void> {
    const saved = JSON.parse(readFileSync(join(dir, "scenarios.json"), "utf8")) as {
      highest: number | null;
      scenarios: [string, number, number][];
    };
    this.#seen.clear();
    for (const [id, mean, variance] of saved.scenarios) this.#seen.set(id, { mean, variance });
    this.#highest = saved.highest ?? Number.NEGATIVE_INFINITY;
  }
}

function momentsOf(rewards: readonly number[]): Seen {
  // Rounding must not make equal rewards differ: no scenario would count as easy.
  if (rewards.every((reward) => reward === rewards[0])) return { mean: rewards[0]!, variance: 0 };
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  return { mean, variance: rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / rewards.length };
}

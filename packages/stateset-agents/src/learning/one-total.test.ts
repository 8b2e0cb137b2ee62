import { describe, expect, it } from "vitest";
import { tokenRewards } from "../algorithm/advantage/turn-credit.ts";
import type { Algorithm } from "../algorithm/algorithm.ts";
import { type AlgorithmConfig, algorithmNames, createAlgorithm } from "../algorithm/algorithms.ts";
import type { RewardResult, Trajectory } from "../conversation/trajectory.ts";
import { EnvironmentReward } from "../reward/builtin/environment.ts";
import { sequenceOf } from "./sequence.ts";

/** Two replies of two tokens each, on turns 1 and 3. */
function conversation(reward: RewardResult, turns: Trajectory["turns"]): Trajectory {
  const turn = Int32Array.of(-1, 1, 1, -1, 3, 3);
  const learn = Uint8Array.from(turn, (one) => (one < 0 ? 0 : 1));
  const logprobs = Float32Array.from(learn, (one) => -one);
  const chains = [{ tokens: Int32Array.of(5, 6, 7, 8, 9, 10), logprobs, learn, turn }];
  const rest = { ended: "done" as const, temperature: 1, stub: false, metadata: {} };
  return { id: "t", scenarioId: "s", turns, chains, reward, ...rest };
}

const turns = (...rewards: (number | undefined)[]) =>
  rewards.flatMap((reward): Trajectory["turns"] => [
    { role: "user", content: "order" },
    { role: "assistant", content: "yes", ...(reward !== undefined && { reward }) },
  ]);

/** The same totals, each given another way; what the environment gave counts only where it is the reward. */
async function rewarded(): Promise<{ total: number; one: Trajectory }[]> {
  const own = turns(0.25, 0.5);
  return [
    { total: 1, one: conversation({ score: 1, breakdown: {} }, own) },
    { total: 0.5, one: conversation({ score: 0, breakdown: {}, turns: { 1: 0.75, 3: -0.25 } }, own) },
    { total: 0.25, one: conversation({ score: 0.25, breakdown: {}, turns: { 1: 2 }, turnsInScore: true }, own) },
    { total: 0.75, one: conversation(await new EnvironmentReward().compute({ turns: own }), own) },
    { total: -1, one: conversation({ score: -2, breakdown: {}, turns: { 3: 1 } }, own) },
  ];
}

/** So that the first token's advantage is the whole return and nothing else; what an algorithm does not have is left out. */
const plain: Partial<Record<string, object>> = {
  ppo: { lambda: 1, whiten: false, beta: 0 },
  a2c: { lambda: 1 },
  vapo: { lengthAlpha: 1e12, whiten: false },
  "reinforce++": { beta: 0 },
};

describe("one total, whichever algorithm learns from it", () => {
  it("is the score and the rewards of single turns, and what is placed on the tokens adds up to it", async () => {
    for (const { total, one } of await rewarded()) {
      const sequence = sequenceOf(one, 0);
      expect(sequence.reward).toBe(total);
      expect(tokenRewards(sequence).reduce((sum, value) => sum + value, 0)).toBeCloseTo(total, 12);
    }
  });

  it.each(algorithmNames)("%s gives a conversation what its total is worth", async (name) => {
    const algorithm: Algorithm = createAlgorithm({ algorithm: name, ...plain[name] } as AlgorithmConfig);
    const all = await rewarded();
    const sequences = all.map(({ one }) => ({ ...sequenceOf(one, 0), oldValues: new Float32Array(4) }));
    const firsts = algorithm.advantages(sequences).map(({ advantages }) => advantages[0]!);
    // A straight line of the total: baselines and scales move and stretch it, and nothing else may.
    const slope = (firsts[0]! - firsts[4]!) / (all[0]!.total - all[4]!.total);
    expect(slope).toBeGreaterThan(0.1);
    for (const [i, { total }] of all.entries()) {
      expect(firsts[i]! - firsts[0]!).toBeCloseTo(slope * (total - all[0]!.total), 4);
    }
  });
});

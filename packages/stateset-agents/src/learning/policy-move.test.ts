import { describe, expect, it } from "vitest";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import { harvestBestOfN } from "../supervised/best-of-n.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { learnFrom } from "./learn-from.ts";

const surprise = (groups: readonly TrajectoryGroup[]) => {
  const tokens = groups.flatMap(({ trajectories }) =>
    trajectories.flatMap(({ chains }) =>
      chains.flatMap(({ logprobs, learn }) => [...logprobs].filter((_, i) => learn[i] === 1)),
    ),
  );
  return -tokens.reduce((sum, logprob) => sum + logprob, 0) / tokens.length;
};

/** Groups of which the first alone has rewards that differ. */
async function sampled(seed: number) {
  const { agent, policy } = tableAgent({ seed, spread: 1 });
  const reward = new FunctionReward((turns, { scenario }) => (scenario?.id === "scenario-0" ? politeShare(turns) : 0));
  const { groups } = await harvestBestOfN({ agent, environment: tableEnvironment(), reward, aboveMean: false, n: 8 });
  return { policy, groups };
}

describe("the metrics of a step", () => {
  it("have the entropy of all sampled tokens, those that teach nothing included", async () => {
    const { policy, groups } = await sampled(3);
    const teaching = groups.filter(({ trajectories }) => new Set(trajectories.map((t) => t.reward.score)).size > 1);
    expect(teaching).toHaveLength(1);
    const { metrics } = await learnFrom(policy, groups, { learningRate: 0.01 });
    expect(metrics.entropy).toBeCloseTo(surprise(groups), 5);
    expect(Math.abs(surprise(teaching) - surprise(groups))).toBeGreaterThan(1e-3);
  });

  it("say how far one update moved the policy, and farther for a higher rate", async () => {
    const moved = async (learningRate: number) => {
      const { policy, groups } = await sampled(3);
      return (await learnFrom(policy, groups, { learningRate })).metrics.approxKl!;
    };
    const [small, large] = [await moved(0.01), await moved(1)];
    expect(small).toBeGreaterThan(0);
    expect(large).toBeGreaterThan(100 * small);
  });

  it("say nothing of a move where nothing was learnt", async () => {
    const { policy, groups } = await sampled(3);
    const flat = groups.filter(({ trajectories }) => new Set(trajectories.map((t) => t.reward.score)).size === 1);
    expect((await learnFrom(policy, flat, { learningRate: 1 })).metrics).not.toHaveProperty("approxKl");
  });
});

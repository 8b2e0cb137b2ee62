import { describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { rewardFunction } from "../reward/define-reward.ts";
import { RewardFunction, type RewardInput } from "../reward/reward-function.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { chainsOf, harvestBestOfN } from "./best-of-n.ts";
import { trainSupervised } from "./train-supervised.ts";

class Pleases extends RewardFunction {
  constructor() {
    super({ name: "pleases" });
  }
  override async compute({ turns }: RewardInput) {
    const words = turns.flatMap((turn) => (turn.role === "assistant" ? turn.content.split(" ") : []));
    const score = words.filter((word) => word === "please").length / Math.max(1, words.length);
    return { score, breakdown: { pleases: score } };
  }
}

function setting() {
  const policy = createTablePolicy();
  const agent = new MultiTurnAgent({ policy, sampling: { maxTokens: 6 } });
  const environment = new ConversationEnvironment({
    scenarios: [
      { id: "late", userResponses: ["order late", "ok"] },
      { id: "card", userResponses: ["card broken"] },
    ],
  });
  return { agent, environment, reward: new Pleases() };
}

describe("harvestBestOfN", () => {
  it("keeps the best of each scenario and only what beats its group", async () => {
    const { agent, environment, reward } = setting();
    const harvest = await harvestBestOfN({ agent, environment, reward, n: 16, keep: 2 });
    expect(harvest.report.completed).toBe(32);
    expect(harvest.groups.map(({ trajectories }) => trajectories.length)).toEqual([16, 16]);
    expect(harvest.kept.length).toBeGreaterThan(0);
    expect(harvest.kept.length).toBeLessThanOrEqual(4);
    expect(harvest.keptReward).toBeGreaterThan(harvest.sampledReward);
    const again = await harvestBestOfN({ agent, environment, reward, n: 16, keep: 2 });
    expect(again.kept.map(({ id }) => id)).toEqual(harvest.kept.map(({ id }) => id));
  });

  it("raises the reward when it is imitated, round by round", async () => {
    const { agent, environment, reward } = setting();
    const rewards: number[] = [];
    for (let round = 0; round < 4; round++) {
      const { kept, sampledReward } = await harvestBestOfN({ agent, environment, reward, n: 32, keep: 8, seed: round });
      rewards.push(sampledReward);
      await trainSupervised({
        agent,
        dir: false,
        examples: chainsOf(kept),
        epochs: 10,
        batchSize: 4,
        learningRate: 0.1,
      });
    }
    expect(rewards.at(-1)).toBeGreaterThan(rewards[0]! + 0.2);
  });

  it("fails with the cause when no conversation came through", async () => {
    const { agent, environment } = setting();
    const reward = rewardFunction(() => {
      throw new Error("no judge today");
    });
    await expect(harvestBestOfN({ agent, environment, reward })).rejects.toMatchObject({
      code: "REWARD_FAILED",
      message: expect.stringMatching(/All 16 conversations of harvestBestOfN\(\) failed.*no judge today/),
    });
  });

  it("keeps nothing below minReward, and refuses to keep everything", async () => {
    const { agent, environment, reward } = setting();
    const { kept } = await harvestBestOfN({ agent, environment, reward, minReward: 2 });
    expect(kept).toEqual([]);
    await expect(harvestBestOfN({ agent, environment, reward, n: 4, keep: 4 })).rejects.toMatchObject({
      code: "INVALID_OPTION",
    });
  });
});

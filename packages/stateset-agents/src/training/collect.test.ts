import { describe, expect, it } from "vitest";
import { createAlgorithm } from "../algorithm/algorithms.ts";
import { FunctionReward, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { type CollectPlan, collect } from "./collect.ts";
import { resolveConfig } from "./config.ts";
import { initialControls } from "./controls.ts";

const replyTokens = 6;
const constant = new FunctionReward(() => 0.5);

function plan(algorithm: CollectPlan["algorithm"], reward = constant, mostReplies = 1): CollectPlan {
  const { agent } = tableAgent({ seed: 3, spread: 1 });
  const config = resolveConfig({ groupsPerStep: 4, groupSize: 8 });
  return {
    step: 1,
    position: 0,
    config,
    controls: initialControls(config, 1),
    algorithm,
    rollout: {
      agent,
      environment: tableEnvironment(),
      reward,
      temperature: 1,
      maxTokens: replyTokens,
      maxTurns: 3,
      concurrency: 8,
      environmentTimeoutMs: 1000,
      rewardTimeoutMs: 1000,
      learn: true,
    },
    replyTokens,
    mostReplies,
  };
}

describe("overlong shaping in conversations of several turns", () => {
  it("takes the penalty off for a reply at its own limit, however many replies there are", async () => {
    const { examples, mostReplies } = await collect(
      plan(createAlgorithm({ algorithm: "dapo", dynamicSampling: false })),
    );
    expect(mostReplies).toBe(3);
    const longest = examples.map(({ sequence: { turn } }) =>
      Math.max(...[1, 3, 5].map((own) => turn.filter((t) => t === own).length)),
    );
    expect(new Set(longest)).toContain(replyTokens);
    examples.forEach(({ sequence }, i) => {
      // The limit is 6 and the buffer a fifth of it: 5 tokens cost 1/6, 6 the whole penalty.
      const penalty = longest[i]! >= 6 ? 1 : longest[i] === 5 ? 1 / 6 : 0;
      expect(sequence.reward).toBeCloseTo(0.5 - penalty, 12);
    });
  });
});

describe("dynamic sampling", () => {
  it("drops a group whose rewards are equal also where shaping would tell its members apart", async () => {
    const { groups, refused, rounds } = await collect(
      plan(createAlgorithm({ algorithm: "dapo", maxSamplingRounds: 3 })),
    );
    expect(groups).toHaveLength(0);
    expect({ refused, rounds }).toEqual({ refused: 12, rounds: 3 });
  });
});

describe("the longest conversation", () => {
  it("never gets shorter, so that Dr. GRPO divides by the same length in every step", async () => {
    const single = plan(createAlgorithm("dr-grpo"), constant, 3);
    single.rollout.maxTurns = 1;
    expect((await collect(single)).mostReplies).toBe(3);
  });
});

import { describe, expect, it } from "vitest";
import { createAlgorithm } from "../algorithm/algorithms.ts";
import { environmentRollout } from "../rollout/rollout.ts";
import { FunctionReward, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { type CollectPlan, collect } from "./collect.ts";
import { resolveConfig } from "./config.ts";
import { ScenarioOrder } from "./scenario-order.ts";

const constant = new FunctionReward(() => 0.5);

function plan(algorithm: CollectPlan["algorithm"]): CollectPlan {
  const { agent } = tableAgent({ seed: 3, spread: 1 });
  const environment = tableEnvironment();
  const config = resolveConfig({ groupsPerStep: 4, groupSize: 8, sampling: { maxTokens: 6 }, maxTurns: 3 });
  return {
    step: 1,
    position: 0,
    lowestReward: 0,
    config,
    controls: { temperature: 1, scenarioWeights: {} },
    algorithm,
    rollout: environmentRollout({ agent, environment, reward: constant, settings: config, learn: true }),
    scenarios: new ScenarioOrder(environment.scenarios, config.seed),
  };
}

describe("dynamic sampling", () => {
  it("drops a group whose rewards are equal also where shaping would tell its members apart", async () => {
    const { groups, refused, rounds } = await collect(
      plan(createAlgorithm({ algorithm: "dapo", maxSamplingRounds: 3 })),
    );
    expect(groups).toHaveLength(0);
    expect({ refused: refused.length, rounds }).toEqual({ refused: 12, rounds: 3 });
  });
});

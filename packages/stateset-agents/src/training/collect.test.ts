import { describe, expect, it } from "vitest";
import { createAlgorithm } from "../algorithm/algorithms.ts";
import { environmentRollout } from "../rollout/rollout.ts";
import { fakeGroup } from "../test-support/fake-group.ts";
import { FunctionReward, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { type CollectPlan, collect } from "./collect.ts";
import { resolveConfig } from "./config.ts";
import { Recall } from "./recall.ts";
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

describe("a step", () => {
  it("plays all of its groups at the same time, those of accumulation too", async () => {
    const given = plan(createAlgorithm({ algorithm: "grpo" }));
    const config = { ...given.config, groupsPerStep: 2, accumulation: 3, groupSize: 4 };
    let [playing, most] = [0, 0];
    const rollout: CollectPlan["rollout"] = {
      ...given.rollout,
      async play(...request) {
        most = Math.max(most, ++playing);
        return await given.rollout.play(...request).finally(() => playing--);
      },
    };
    const { groups, drawn } = await collect({ ...given, config, rollout });
    expect({ groups: groups.length, drawn, most }).toEqual({ groups: 6, drawn: 6, most: 24 });
  });
});

describe("a lost scenario", () => {
  const grpo = createAlgorithm({ algorithm: "grpo" });
  /** Scenarios of the environment that were lost, in that order, after one that it does not have. */
  function recalling(...ids: string[]): Recall {
    const recall = new Recall({ maskTruncated: false });
    for (const [best, worst] of [
      [1, 0],
      [0, 0],
    ] as const)
      recall.note(["gone", ...ids].map((id) => fakeGroup(id, [{ reward: best }, { reward: worst }])));
    return recall;
  }
  /** What a step of two groups draws, and how far the order moves. */
  async function drawn(own: Partial<CollectPlan>, groupsPerStep = 2): Promise<{ ids: string[]; moves: number }> {
    const given = plan(grpo);
    const config = { ...given.config, groupsPerStep, groupSize: 2 };
    const { groups, drawn: moves } = await collect({ ...given, config, ...own });
    return { ids: groups.map(({ scenarioId }) => scenarioId), moves };
  }

  it("takes the last group of a step, and the order goes on where it was", async () => {
    const { ids } = await drawn({}, 4);
    const [first, second, third, fourth] = ids as [string, string, string, string];
    expect(await drawn({ recall: recalling(third, fourth) })).toEqual({ ids: [first, third], moves: 1 });
    expect(await drawn({ position: 1 })).toEqual({ ids: [second, third], moves: 2 });
    expect(await drawn({ recall: recalling() })).toEqual({ ids: [first, second], moves: 2 });
  });

  it("is not drawn twice in a step, nor where its weight is 0 or the step has one group", async () => {
    const { ids } = await drawn({}, 4);
    const [first, second, third, fourth] = ids as [string, string, string, string];
    expect((await drawn({ recall: recalling(first, fourth) })).ids).toEqual([first, fourth]);
    expect((await drawn({ recall: recalling(first) })).ids).toEqual([first, second]);
    const controls = { temperature: 1, scenarioWeights: { [third]: 0, [fourth]: 1 } };
    expect((await drawn({ controls, recall: recalling(third, fourth) })).ids.at(-1)).toBe(fourth);
    expect((await drawn({ recall: recalling(third) }, 1)).ids).toEqual([first]);
  });
});

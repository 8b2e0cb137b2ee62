import { expect, it } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { retail } from "../environment/domain/retail/retail.ts";
import { StateReward } from "../reward/state-reward.ts";
import { configForTask } from "./profiles.ts";
import { train } from "./train.ts";

it.each(["conservative", "balanced"] as const)(
  'trains the bundled model on tools with configForTask("tools") and the profile %s, and nothing is amiss',
  async (profile) => {
    const small = { steps: 2, groupsPerStep: 2, groupSize: 4, seed: 1 };
    const agent = new MultiTurnAgent({ systemPrompt: "You are a shop assistant.", threads: 1 });
    const environment = retail({ level: 1, tasks: 8 });
    const reward = new StateReward();
    const config = configForTask("tools", small);
    const { run } = await train({ ...config, profile, agent, environment, reward, dir: false, recall: false });
    await agent.close();
    expect(run.status).toBe("finished");
    expect(run.warnings).toEqual([]);
    for (const metrics of run.metrics) {
      expect(metrics.toolCalls).toBeGreaterThan(0);
      // Calls and answers fit into a reply, and a conversation into the context.
      expect(metrics).toMatchObject({ truncated: 0, contextFull: 0, conversations: 8 });
    }
  },
);

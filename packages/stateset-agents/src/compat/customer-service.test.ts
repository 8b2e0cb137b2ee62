import { describe, expect, it } from "vitest";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { customerService } from "../environment/preset/index.ts";
import {
  createCustomerServiceReward,
  createSalesReward,
  createTechnicalSupportReward,
} from "../reward/builtin/domains.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { train } from "../training/train.ts";
import {
  CustomerServiceAgent,
  CustomerServiceEnvironment,
  CustomerServiceReward,
  SalesAssistantReward,
  TechnicalSupportReward,
} from "./customer-service.ts";

const turns = [
  { role: "user", content: "My order is two weeks late." },
  { role: "assistant", content: "I am sorry about that. Could you please tell me the order number?" },
] as const;

describe("CustomerServiceAgent", () => {
  it("takes a model alone, as in Python, or the options of an agent", () => {
    const agent = new CustomerServiceAgent("some/model");
    expect(agent).toBeInstanceOf(MultiTurnAgent);
    expect(agent.options).toMatchObject({
      model: "some/model",
      systemPrompt: "You are a helpful customer support agent.",
    });
    expect(new CustomerServiceAgent({ systemPrompt: "Be brief." }).options.systemPrompt).toBe("Be brief.");
    expect(() => new CustomerServiceAgent({ sistemPrompt: "" } as never)).toThrow(/sistemPrompt.*systemPrompt/s);
  });

  it("trains on its environment with its reward", async () => {
    const agent = new CustomerServiceAgent({ policy: createTablePolicy(), sampling: { maxTokens: 6 } });
    const { run } = await train({
      agent,
      environment: new CustomerServiceEnvironment({ maxTurns: 2 }),
      reward: new CustomerServiceReward(),
      dir: false,
      steps: 2,
      groupsPerStep: 2,
      groupSize: 4,
    });
    expect(run.status).toBe("finished");
    expect(run.metrics[1]).toMatchObject({ "part/politeness": expect.any(Number), "part/safety": expect.any(Number) });
  });
});

describe("CustomerServiceEnvironment", () => {
  it("has the scenarios of customerService(), of its options too", () => {
    for (const options of [{}, { heldOut: true }, { maxTurns: 2 }]) {
      const environment = new CustomerServiceEnvironment(options);
      expect(environment).toBeInstanceOf(ConversationEnvironment);
      expect(environment.scenarios).toEqual(customerService(options).scenarios);
      expect(environment.maxTurns).toBe(customerService(options).maxTurns);
    }
  });
});

describe("the rewards of the domains", () => {
  it.each([
    { Reward: CustomerServiceReward, create: createCustomerServiceReward },
    { Reward: TechnicalSupportReward, create: createTechnicalSupportReward },
    { Reward: SalesAssistantReward, create: createSalesReward },
  ])("$Reward.name scores as its function does", async ({ Reward, create }) => {
    const reward = new Reward({ weight: 0.4 });
    expect(reward.weight).toBe(0.4);
    expect(reward.name).toBe(create().name);
    const result = await reward.compute({ turns });
    expect(result.score).toBeGreaterThan(0);
    expect(result).toEqual(await create().compute({ turns }));
  });
});

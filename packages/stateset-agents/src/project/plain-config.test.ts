import { describe, expect, it } from "vitest";
import { fromPlainData } from "./plain-config.ts";

const environment = { preset: "customer_service" };

describe("fromPlainData", () => {
  it("takes snake_case for our own names, nested or at the top", () => {
    const { config } = fromPlainData(
      {
        environment: { preset: "sales", max_turns: 3 },
        held_out: "x.jsonl",
        auto_adjust: true,
        group_size: 4,
        training: { groups_per_step: 2, kl: { coefficient: 0.1 } },
      },
      "c.yaml",
    );
    expect(config).toEqual({
      environment: { preset: "sales", maxTurns: 3 },
      heldOut: "x.jsonl",
      autoAdjust: true,
      training: { groupSize: 4, groupsPerStep: 2, kl: { coefficient: 0.1 } },
    });
  });

  it("understands the names of Python configurations and says which have no effect", () => {
    const { config, notes } = fromPlainData(
      {
        environment,
        model_name: "gpt2",
        num_episodes: 1000,
        num_generations: 16,
        max_grad_norm: 1,
        learning_rate: 5e-6,
        save_steps: 100,
        report_to: "wandb",
        bf16: true,
        clip_range: 0.2,
        output_dir: "./out",
      },
      "c.yaml",
    );
    expect(config.training).toMatchObject({
      episodes: 1000,
      groupSize: 16,
      clipNorm: 1,
      learningRate: 5e-6,
      checkpoint: { every: 100 },
      epsilonLow: 0.2,
      epsilonHigh: 0.2,
    });
    expect(config.agent).toMatchObject({ model: "gpt2" });
    expect(config.trackers).toEqual(["wandb"]);
    expect(notes).toEqual(["bf16 has no effect: The engine computes in float32."]);
    expect(config.savePath).toBe("./out");
  });

  it("keeps the user's own data as it is", () => {
    const scenarios = [{ id: "a_b", userResponses: ["x"], metadata: { order_id: 1 } }];
    expect(fromPlainData({ environment: { scenarios }, reward: { task_completion: 1 } }, "c").config).toMatchObject({
      environment: { scenarios },
      reward: { task_completion: 1 },
    });
    const { config } = fromPlainData(
      {
        agent: { template_variables: { enable_thinking: false } },
        training: { algorithm: "gdpo", reward_weights: { my_part: 1 } },
        environment: { scenarios },
      },
      "c",
    );
    expect(config).toMatchObject({
      agent: { templateVariables: { enable_thinking: false } },
      training: { rewardWeights: { my_part: 1 } },
    });
  });

  it("names an unknown key with the nearest one, and what holds none", () => {
    expect(() => fromPlainData({ environment, learnin_rate: 1 }, "c.yaml")).toThrow(
      'Unknown key "learnin_rate" in c.yaml. Did you mean "learningRate"?',
    );
    expect(() => fromPlainData("text", "c.yaml")).toThrow("holds no configuration");
  });
});

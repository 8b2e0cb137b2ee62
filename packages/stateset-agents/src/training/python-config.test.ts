import { describe, expect, it } from "vitest";
import { resolveAgentOptions } from "../agent/agent-options.ts";
import { resolveConfig } from "./config.ts";
import { fromPythonConfig } from "./python-config.ts";

const training = (record: Record<string, unknown>) => fromPythonConfig(record).training;

describe("fromPythonConfig", () => {
  it("maps the names users know", () => {
    const mapped = fromPythonConfig({
      num_episodes: 1000,
      num_epochs: 1,
      learning_rate: 5e-6,
      max_grad_norm: 1,
      warmup_ratio: 0.1,
      num_generations: 16,
      max_completion_length: 512,
      eval_steps: 50,
      save_steps: 100,
      beta: 0.1,
      clip_range_left: 3e-4,
      clip_range_right: 4e-4,
      use_lora: true,
      lora_r: 8,
      model_name: "gpt2",
      enable_reasoning: true,
      device_map: "auto",
      bf16: true,
      report_to: "wandb",
    });
    expect(resolveConfig(mapped.training)).toMatchObject({
      steps: Math.ceil(1000 / 64),
      learningRate: 5e-6,
      clipNorm: 1,
      warmup: 0.1,
      groupSize: 16,
      updatesPerRollout: 1,
      sampling: { maxTokens: 512 },
      evaluation: { every: 50 },
      checkpoint: { every: 100 },
    });
    expect(mapped.algorithm).toEqual({ beta: 0.1, epsilonLow: 3e-4, epsilonHigh: 4e-4 });
    expect(mapped.agent).toEqual({ model: "gpt2", lora: { rank: 8 }, reasoning: true });
    expect(mapped.ignored).toEqual([
      { key: "bf16", reason: "The engine computes in float32." },
      { key: "report_to", reason: "Trackers are given to train() or by the CLI's --tracker." },
      { key: "num_epochs", reason: "num_episodes says how long the run is." },
      { key: "device_map", reason: "The engine computes on the CPU." },
    ]);
  });

  it("names an unknown key and the nearest known one", () => {
    expect(() => fromPythonConfig({ num_generation: 4 })).toThrow(/"num_generation".*"num_generations"/);
  });
});

describe("TRL's batch sizes", () => {
  const conversations = (record: Record<string, unknown>) => {
    const { groupsPerStep, accumulation, groupSize } = resolveConfig(training(record));
    return groupsPerStep * accumulation * groupSize;
  };

  it("are as many conversations a step here as there", () => {
    const batch = { per_device_train_batch_size: 8, num_generations: 8 };
    expect(conversations(batch)).toBe(8);
    expect(conversations({ ...batch, gradient_accumulation_steps: 4 })).toBe(32);
    expect(training({ ...batch, gradient_accumulation_steps: 4 })).toEqual({ groupSize: 8, groupsPerStep: 4 });
    const small = { per_device_train_batch_size: 2, gradient_accumulation_steps: 16, num_generations: 16 };
    expect(conversations(small)).toBe(32);
  });

  it("are refused where they are no whole groups, or do not say how many", () => {
    const odd = { per_device_train_batch_size: 1, gradient_accumulation_steps: 4, num_generations: 16 };
    expect(() => training(odd)).toThrow(
      /"per_device_train_batch_size".*1 × 4 = 4 conversations.*num_generations: 16.*groupsPerStep/s,
    );
    expect(() => training({ per_device_train_batch_size: 8 })).toThrow(
      /"per_device_train_batch_size".*num_generations/s,
    );
    expect(() => training({ gradient_accumulation_steps: 4, num_generations: 4 })).toThrow(
      /"gradient_accumulation_steps".*per_device_train_batch_size/s,
    );
    expect(() => training({ per_device_train_batch_size: "8", num_generations: 8 })).toThrow(/"8" is no count/);
  });
});

describe("the length of a run", () => {
  it.each(["num_train_epochs", "num_epochs"])("is not passes over a rollout: %s", (key) => {
    expect(() => training({ [key]: 3 })).toThrow(new RegExp(`"${key}".*passes over the scenarios.*num_episodes`, "s"));
    expect(() => training({ [key]: 3, num_episodes: 100 })).toThrow(/num_iterations/);
    expect(fromPythonConfig({ [key]: 3, max_steps: 50 })).toMatchObject({
      training: { steps: 50 },
      ignored: [{ key, reason: "max_steps says how long the run is." }],
    });
  });

  it("is counted in the optimiser's steps there, in rounds of sampling here", () => {
    const steps = { max_steps: 100, save_steps: 50, eval_steps: 10, ref_model_sync_steps: 20 };
    expect(training({ ...steps, num_iterations: 4 })).toEqual({
      updatesPerRollout: 4,
      steps: 25,
      checkpoint: { every: 13 },
      evaluation: { every: 3 },
      kl: { renewEvery: 5 },
    });
    expect(training(steps)).toMatchObject({ steps: 100, checkpoint: { every: 50 } });
  });
});

describe("what belongs to the agent", () => {
  const agent = (record: Record<string, unknown>) => {
    const mapped = fromPythonConfig(record);
    resolveAgentOptions(mapped.agent);
    return mapped;
  };

  it("plays the replies of a stub, and no others", () => {
    const replies = ["Hello!", "Is there anything else?"];
    expect(agent({ model_name: "stub://demo", use_stub_model: true, stub_responses: replies }).agent).toEqual({
      model: "stub://demo",
      stub: { replies },
    });
    expect(agent({ model_name: "stub://demo", stub_responses: replies }).agent.stub).toEqual({ replies });
    expect(agent({ use_stub_model: true }).agent).toEqual({ stub: {} });
    expect(agent({ model_name: "gpt2", use_stub_model: false, stub_responses: replies })).toMatchObject({
      agent: { model: "gpt2" },
      ignored: [{ key: "stub_responses", reason: "They are played with use_stub_model: true alone." }],
    });
    expect(agent({ use_stub_model: false }).agent).toEqual({});
  });

  it("cuts conversations that grow too long", () => {
    const on = { enable_context_compression: true, compression_ratio: 0.25 };
    expect(agent({ ...on, compression_strategy: "summary" }).agent.contextWindow).toEqual({
      strategy: "summary",
      keep: 0.25,
    });
    expect(agent({ ...on, compression_strategy: "sliding_window" }).agent.contextWindow).toMatchObject({
      strategy: "sliding-window",
    });
    expect(() => agent(on)).toThrow(/"enable_context_compression".*compression_strategy/s);
    expect(() => agent({ ...on, compression_strategy: "zip" })).toThrow(/"zip" is no way.*"truncate"/s);
    const off = agent({ compression_ratio: 0.25, compression_strategy: "summary" });
    expect(off.agent).toEqual({});
    expect(off.ignored.map(({ key }) => key)).toEqual(["compression_ratio", "compression_strategy"]);
  });

  it("computes on the CPU, and does not pretend otherwise", () => {
    expect(() => agent({ device_map: "cuda:0" })).toThrow(/"device_map".*CPU, not on "cuda:0"/s);
  });
});

describe("kl_penalty", () => {
  it("is a weight for any algorithm, once", () => {
    expect(training({ kl_penalty: 0.1 })).toEqual({ kl: { coefficient: 0.1 } });
    expect(() => training({ kl_penalty: 0.1, beta: 0.04 })).toThrow(/"kl_penalty".*on top of beta/s);
    expect(() => training({ kl_penalty: "abs" })).toThrow(/"abs" is no weight/);
  });

  it("lets the particular key win over the general, and knows TRL's ways of not giving one", () => {
    for (const given of [
      { epsilon: 0.1, epsilon_high: 0.3 },
      { epsilon_high: 0.3, epsilon: 0.1 },
    ])
      expect(fromPythonConfig(given).algorithm).toEqual({ epsilonLow: 0.1, epsilonHigh: 0.3 });
    expect(fromPythonConfig({ max_steps: -1, num_episodes: 64 }).training).toEqual({ episodes: 64 });
    expect(fromPythonConfig({ save_steps: 0, num_iterations: 2, max_steps: 4 }).training).toMatchObject({
      steps: 2,
      checkpoint: { every: 0 },
    });
  });
});

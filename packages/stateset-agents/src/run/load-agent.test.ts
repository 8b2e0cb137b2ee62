import { rmSync, writeFileSync } from "node:fs";
import { isAbsolute, join, relative } from "node:path";
import { describe, expect, it } from "vitest";
import { chatModel } from "../../test/cli.ts";
import { readVector } from "../../test/read-vector.ts";
import { temporaryFolder } from "../../test/tiny-model.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { AlgorithmConfig } from "../algorithm/index.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { rewardFunction } from "../reward/define-reward.ts";
import { train } from "../training/train.ts";
import { readConfig } from "./config.ts";
import { loadAgentFromCheckpoint } from "./load-agent.ts";

const environment = new ConversationEnvironment({ scenarios: [{ id: "a", userResponses: ["hello"] }] });
const reward = rewardFunction({ name: "e" }, ({ turns }) => turns.at(-1)!.content.split("e").length);

/** A run that is stopped after its third step of five, with what the policy's weights were after each. */
async function unfinished(algorithm: AlgorithmConfig, lora: boolean): Promise<{ dir: string; after: Float32Array[] }> {
  const dir = join(await temporaryFolder(), "run");
  const agent = new MultiTurnAgent({
    model: await chatModel(3),
    systemPrompt: "Say e.",
    sampling: { temperature: 0.7, maxTokens: 6 },
    ...(lora && { lora: { rank: 2 } }),
  });
  await agent.initialize();
  const after: Float32Array[] = [];
  const stop = new AbortController();
  const watch = {
    async onStepEnd() {
      after.push(await readVector(agent.policy, "parameters"));
      if (after.length === 3) stop.abort();
    },
  };
  const run = train({
    ...algorithm,
    agent,
    environment,
    reward,
    dir,
    steps: 5,
    groupsPerStep: 1,
    groupSize: 4,
    learningRate: 0.01,
    checkpoint: { every: 1 },
    callbacks: [watch],
    signal: stop.signal,
  });
  expect((await run).run.status).toBe("interrupted");
  await agent.close();
  return { dir, after };
}

async function weightsAt(path: string, count: number): Promise<Float32Array> {
  const agent = await loadAgentFromCheckpoint(path);
  try {
    return (await readVector(agent.policy, "parameters")).subarray(0, count);
  } finally {
    await agent.close();
  }
}

describe("loadAgentFromCheckpoint of a run that is not finished", () => {
  it.each([
    ["full weights", { algorithm: "grpo" }, false],
    ["an adapter", { algorithm: "grpo" }, true],
    ["a value head beside them", { algorithm: "a2c" }, false],
  ] as const)("opens each checkpoint, the last by the run's name: %s", async (_, algorithm, lora) => {
    const { dir, after } = await unfinished(algorithm, lora);
    const head = algorithm.algorithm === "a2c";
    const policyOnly = (vector: Float32Array) => (head ? vector.subarray(0, vector.length - 49) : vector);
    for (const [path, index] of [
      [join(dir, "checkpoints", "step-000001"), 0],
      [join(dir, "checkpoints", "step-000002"), 1],
      [join(dir, "checkpoints", "last"), 2],
      [dir, 2],
    ] as const) {
      const expected = policyOnly(after[index]!);
      expect(Buffer.compare(bytes(await weightsAt(path, expected.length)), bytes(expected)), path).toBe(0);
    }
    const agent = await loadAgentFromCheckpoint(dir);
    expect(agent.options).toMatchObject({ systemPrompt: "Say e.", sampling: { temperature: 0.7, maxTokens: 6 } });
    await agent.close();
  });

  it("opens an adapter with another seed or engine, and refuses one of other weights", async () => {
    const { dir, after } = await unfinished({ algorithm: "grpo" }, true);
    const opened = async (overrides = {}) => {
      const agent = await loadAgentFromCheckpoint(dir, overrides);
      const weights = await readVector(agent.policy, "parameters");
      await agent.close();
      return weights;
    };
    // The seed of its replies: the adapter is the checkpoint's.
    expect(await opened({ seed: 5 })).toEqual(after[2]);
    const { model, ...rest } = readConfig(dir);
    const digested = (digest: string) =>
      writeFileSync(join(dir, "config.json"), JSON.stringify({ ...rest, model: { ...model, digest } }));
    digested("a".repeat(64));
    expect(await opened()).toEqual(after[2]);
    digested("a".repeat(model.digest.length));
    await expect(opened()).rejects.toMatchObject({ code: "CHECKPOINT_MISMATCH" });
  });

  it("says what is missing: a checkpoint, the base of an adapter, or what is not damaged", async () => {
    const { dir } = await unfinished({ algorithm: "grpo" }, false);
    await expect(loadAgentFromCheckpoint(join(dir, "checkpoints", "step-000009"))).rejects.toMatchObject({
      code: "CHECKPOINT_NOT_FOUND",
    });
    writeFileSync(join(dir, "checkpoints", "step-000002", "state.json"), "{}");
    await expect(loadAgentFromCheckpoint(join(dir, "checkpoints", "step-000002"))).rejects.toMatchObject({
      code: "CHECKPOINT_INVALID",
    });
    rmSync(join(dir, "checkpoints"), { recursive: true });
    await expect(loadAgentFromCheckpoint(dir)).rejects.toThrow("The run has not saved one yet");
    await expect(loadAgentFromCheckpoint(join(dir, "nowhere"))).rejects.toMatchObject({ code: "CHECKPOINT_NOT_FOUND" });
  });
});

function bytes(vector: Float32Array): Uint8Array {
  return new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength);
}

it("names the model of a run in full, so that its checkpoints open from wherever", async () => {
  const model = await chatModel(3);
  const dir = join(await temporaryFolder(), "run");
  const agent = new MultiTurnAgent({ model: relative(process.cwd(), model), threads: 1, sampling: { maxTokens: 2 } });
  await agent.initialize();
  await train({ agent, environment, reward, dir, steps: 1, groupsPerStep: 1, groupSize: 2 });
  expect(isAbsolute(agent.policy.model.name)).toBe(false);
  await agent.close();
  expect(readConfig(dir).model.name).toBe(model);
});

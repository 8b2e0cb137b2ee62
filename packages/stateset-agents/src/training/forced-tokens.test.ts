/** Tokens that a constraint forced carry no gradient: shown on the gradient itself, against one made by hand. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { readVector } from "../../test/read-vector.ts";
import { makeTinyModel } from "../../test/tiny-model.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import { createAlgorithm } from "../algorithm/algorithms.ts";
import type { Trajectory, TrajectoryGroup } from "../conversation/trajectory.ts";
import { sequencesOf } from "../learning/sequence.ts";
import { accumulate } from "../learning/update.ts";
import { openPolicy } from "../policy/open-policy.ts";
import type { Policy } from "../policy/policy.ts";
import { callsOnly } from "../test-support/walk-automaton.ts";
import { callFormats } from "../tool/format/choose-format.ts";
import { tool } from "../tool/tool.ts";
import { resolveConfig } from "./config.ts";

let policy: Policy;
beforeAll(async () => {
  const model = await makeTinyModel("llama", { max_position_embeddings: 4096 }, { scale: 0.4 });
  policy = await openPolicy({ model, threads: 1 });
});
afterAll(() => policy.close());

const limits = { maxLength: 6, maxItems: 2, maxDepth: 1 };
const book = tool({
  name: "book",
  parameters: z.object({ city: z.enum(["Rome", "Oslo"]), people: z.int().min(1).max(9) }),
  execute: () => "Booked.",
});

/** What the engine said was forced, a conversation. Random weights never open a call by themselves, so replies are held to calls. */
async function play(rewards: readonly number[]) {
  const forced: Uint8Array[] = [];
  const definitions = new MultiTurnAgent({ tools: [book] }).options.tools!;
  const constraint = callsOnly(callFormats.hermes, definitions, limits);
  const sample: Policy["sample"] = async (requests, options) => {
    const samples = await policy.sample(
      requests.map((one) => ({ ...one, constraint })),
      options,
    );
    forced.push(...samples.map(({ constrained }) => Uint8Array.from(constrained!.forced)));
    return samples;
  };
  const watched = new Proxy(policy, { get: (of, name) => (name === "sample" ? sample : Reflect.get(of, name)) });
  const agent = new MultiTurnAgent({
    ...{ policy: watched, tools: [book], constrain: limits, callFormat: "hermes" },
    ...{ maxToolSteps: 0, sampling: { maxTokens: 80 } },
  });
  const trajectories: Trajectory[] = [];
  for (const [i, score] of rewards.entries()) {
    const session = agent.startConversation({ seed: i });
    const user = { role: "user", content: "Book." } as const;
    const { turns } = await session.reply([user]);
    const of = { id: `t${i}`, scenarioId: "book", turns: [user, ...turns], chains: session.chains() };
    const reward = { score, breakdown: {} };
    trajectories.push({ ...of, reward, ended: "done", temperature: session.temperature, stub: false, metadata: {} });
  }
  return { group: { id: "g", scenarioId: "book", trajectories }, forced };
}

/** As an update makes it. */
async function gradientOf(group: TrajectoryGroup): Promise<Float32Array> {
  const algorithm = createAlgorithm("grpo");
  const sequences = sequencesOf([group]);
  const tokens = sequences.reduce((sum, { old }) => sum + old.length, 0);
  const batch = {
    ...{ sequences, advantages: algorithm.advantages(sequences), members: [...sequences.keys()] },
    counts: { sequences: sequences.length, tokens, groups: 1, maxTokens: 80 },
  };
  const settings = resolveConfig({ tokenBudget: 1e5 });
  await accumulate({ policy, algorithm, reference: undefined, settings }, batch, (micro, counts) =>
    algorithm.loss(micro, counts),
  );
  return takeGradient();
}

/**
 * By hand, one conversation at a time: GRPO's mean over the tokens that were not forced, each with the weight min(2, p/q) of having been
 * drawn from q, what the mask left.
 */
async function byHand({ trajectories }: TrajectoryGroup, forced: readonly Uint8Array[]): Promise<Float32Array> {
  const advantages = createAlgorithm("grpo").advantages(sequencesOf([{ id: "", scenarioId: "", trajectories }]));
  for (const [i, { chains, temperature }] of trajectories.entries()) {
    const { tokens, turn, logprobs, samplerLogprobs } = chains[0]!;
    const own = [...turn.keys()].filter((at) => turn[at] === 1);
    const left = own.filter((_, n) => forced[i]![n] === 0);
    const wanted = Uint8Array.from(turn, (one) => (one === 1 ? 1 : 0));
    const one = { tokens, nodeStart: Int32Array.of(0, tokens.length), nodeParent: Int32Array.of(-1), wanted };
    const pass = await policy.forward(one, { temperature });
    const derivatives = new Float32Array(tokens.length);
    for (const at of left) {
      const weight = Math.min(2, Math.exp(logprobs[at]! - samplerLogprobs![at]!));
      derivatives[at] = (-weight * advantages[i]!.advantages[0]!) / (trajectories.length * left.length);
    }
    await policy.backward(pass, { logprobs: derivatives });
  }
  return takeGradient();
}

async function takeGradient(): Promise<Float32Array> {
  const vector = await readVector(policy, "gradients");
  await policy.zeroGradients();
  return vector;
}

const norm = (vector: Float32Array) => Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
const apart = (a: Float32Array, b: Float32Array) => norm(a.map((value, i) => value - b[i]!)) / norm(b);

describe("an update on calls that were constrained", () => {
  it("has the gradient of the tokens that had a choice, and of no others", async () => {
    const { group, forced } = await play([1, 0, 0.2, 0.5]);
    expect(forced.every((own) => own.includes(1) && own.includes(0))).toBe(true);
    const gradient = await gradientOf(group);
    expect(norm(gradient)).toBeGreaterThan(1e-3);
    expect(apart(gradient, await byHand(group, forced))).toBeLessThan(1e-6);

    // One forced token too many would be seen.
    const { learn, turn } = group.trajectories[0]!.chains[0]!;
    const at = [...turn.keys()].find((place) => turn[place] === 1 && learn[place] === 0)!;
    learn[at] = 1;
    expect(apart(await gradientOf(group), gradient)).toBeGreaterThan(1e-3);
    learn[at] = 0;
    expect(await gradientOf(group)).toEqual(gradient);
  });
});

import { describe, expect, it } from "vitest";
import { algorithmNames, createAlgorithm } from "../algorithm/algorithms.ts";
import type { TokenChain, Trajectory, TrajectoryGroup } from "../conversation/trajectory.ts";
import { createRandom } from "../random.ts";
import { EnvironmentReward } from "../reward/builtin/environment.ts";
import { createTablePolicy } from "../test-support/table-policy.ts";
import { resolveConfig } from "../training/config.ts";
import type { Learner } from "./learner.ts";
import { gather, gatherValues, microBatches, scatter, scatterValues } from "./micro-batch.ts";
import { scoreSequences } from "./score-sequences.ts";
import { sequenceOf, sequencesOf } from "./sequence.ts";
import { accumulate } from "./update.ts";

const random = createRandom(7);

/** A chain that continues `prompt` with several turns of sampled tokens and of words that were not sampled. */
function chain(prompt: readonly number[]): TokenChain {
  const tokens = [...prompt];
  const learn = prompt.map(() => 0);
  const turn = prompt.map(() => -1);
  for (let reply = 0; reply < 1 + random.below(3); reply++) {
    for (let i = 0; i < 1 + random.below(5); i++) {
      tokens.push(6 + random.below(4));
      learn.push(1);
      turn.push(1 + 2 * reply);
    }
    for (const user of [2, 8, 0, 3]) {
      tokens.push(user);
      learn.push(0);
      turn.push(-1);
    }
  }
  return {
    tokens: Int32Array.from(tokens),
    learn: Uint8Array.from(learn),
    turn: Int32Array.from(turn),
    logprobs: Float32Array.from(learn, (bit) => (bit === 1 ? -1 - random.next() : 0)),
  };
}

function group(id: string, prompt: readonly number[], size: number): TrajectoryGroup {
  const trajectories = Array.from(
    { length: size },
    (_, i): Trajectory => ({
      id: `${id}-${i}`,
      scenarioId: id,
      turns: [],
      chains: i === 0 ? [chain(prompt), chain([...prompt, 7])] : [chain(prompt)],
      reward: { score: random.next(), breakdown: {} },
      ended: "done",
      temperature: 1,
      stub: false,
      metadata: {},
    }),
  );
  return { id, scenarioId: id, trajectories };
}

const groups = [
  group("a", [1, 9, 0, 2, 7, 0, 3], 5),
  group("b", [1, 9, 0, 2, 10, 11, 0, 3], 4),
  group("c", [1, 9, 0, 2, 12, 0, 3], 6),
];
const sequences = sequencesOf(groups);
const all = [...sequences.keys()];
const packed = (members: readonly number[], budget: number) => [...microBatches(sequences, members, budget)];

describe("sequences", () => {
  it("hold the learn tokens of all chains, in order", () => {
    const [first] = sequences;
    const [a, b] = groups[0]!.trajectories[0]!.chains;
    const own = (c: TokenChain) => [...c.logprobs].filter((_, i) => c.learn[i] === 1);
    expect([...first!.old]).toEqual([...own(a!), ...own(b!)]);
    expect(first!.turn.every((turn) => turn >= 0)).toBe(true);
    expect(sequences.map(({ group }) => group)).toEqual([
      ...Array(5).fill(0),
      ...Array(4).fill(1),
      ...Array(6).fill(2),
    ]);
  });
});

describe("an environment's own rewards", () => {
  const turns = [1, 0.5].flatMap((reward) => [
    { role: "user" as const, content: "order" },
    { role: "assistant" as const, content: "yes", reward },
  ]);
  const { chains } = groups[0]!.trajectories[1]!;
  const of = (reward: Trajectory["reward"]) => sequenceOf({ ...groups[0]!.trajectories[1]!, turns, chains, reward }, 0);

  it("stay on their turns, once, when they are the whole reward", async () => {
    const sequence = of(await new EnvironmentReward().compute({ turns }));
    expect(sequence).toMatchObject({ reward: 1.5, turnRewards: { 1: 1, 3: 0.5 }, turnsInReward: true });
  });

  it("do not count beside a reward function's, whose own turns do", () => {
    const sequence = of({ score: 2, breakdown: {}, turns: { 3: 1 } });
    expect(sequence).toMatchObject({ reward: 3, turnRewards: { 3: 1 }, turnsInReward: true });
  });
});

describe("micro-batches", () => {
  it.each([16, 60, 100, 200, 10_000])(
    "hold each sequence once and keep to a budget of %i distinct tokens",
    (budget) => {
      const batches = packed(all, budget);
      expect(batches.flatMap((batch) => batch.members)).toEqual(all);
      for (const { merged, members } of batches) {
        if (members.length > 1) expect(merged.tree.tokens.length).toBeLessThanOrEqual(budget);
      }
    },
  );

  it("keep groups whole where they fit", () => {
    const size = (g: number) => {
      const members = all.filter((i) => sequences[i]!.group === g);
      return packed(members, 1e6)[0]!.merged.tree.tokens.length;
    };
    const batches = packed(all, Math.max(size(0), size(1), size(2)));
    const groupsOf = batches.map((batch) => new Set(batch.members.map((i) => sequences[i]!.group)));
    for (let g = 0; g < 3; g++) expect(groupsOf.filter((set) => set.has(g)).length).toBe(1);
  });

  it("gather what the tree holds at a token and, for values, at the token before it; scatter is the transpose", () => {
    const [batch] = packed(all, 10_000);
    const { tree, predecessor } = batch!.merged;
    const numbers = Float32Array.from(tree.tokens, (_, i) => i);
    const direct = gather(batch!, numbers);
    const before = gatherValues(batch!, numbers);
    direct.forEach((places, member) => {
      places.forEach((place, t) => {
        expect(before[member]![t]).toBe(predecessor[place]);
      });
    });
    const weights = direct.map((own) => own.map(() => random.next() - 0.5));
    const dot = (a: ArrayLike<number>, b: ArrayLike<number>) => Array.from(a).reduce((sum, x, i) => sum + x * b[i]!, 0);
    const gathered = direct.reduce((sum, own, i) => sum + dot(own, weights[i]!), 0);
    expect(dot(scatter(batch!, weights), numbers)).toBeCloseTo(gathered, 2);
    const values = before.reduce((sum, own, i) => sum + dot(own, weights[i]!), 0);
    expect(dot(scatterValues(batch!, weights), numbers)).toBeCloseTo(values, 2);
  });
});

describe("the gradient of a batch", () => {
  it.each(algorithmNames)("is that of one-by-one processing (%s)", async (name) => {
    const algorithm = createAlgorithm(name);
    const gradient = async (tokenBudget: number) => {
      const policy = createTablePolicy({ seed: 2, spread: 1 });
      if (algorithm.needs.values) await policy.addValueHead();
      const reference = await policy.reference();
      const settings = { ...resolveConfig(), tokenBudget };
      const learner: Learner = { policy, algorithm, reference, settings };
      const fresh = sequencesOf(groups);
      await scoreSequences(learner, fresh, { values: true, reference: true });
      const batch = {
        sequences: fresh,
        advantages: algorithm.advantages(fresh),
        members: all,
        counts: { sequences: 15, tokens: fresh.reduce((n, s) => n + s.old.length, 0), groups: 3, maxTokens: 32 },
      };
      const { loss } = await accumulate(learner, batch, (micro, counts) => algorithm.loss(micro, counts));
      return { loss, gradient: Float64Array.from(policy.gradients), forwards: policy.calls.forward };
    };
    const whole = await gradient(1e6);
    const single = await gradient(1);
    expect(single.forwards).toBeGreaterThan(whole.forwards);
    expect(single.loss).toBeCloseTo(whole.loss, 6);
    const norm = Math.hypot(...whole.gradient);
    expect(norm).toBeGreaterThan(1e-3);
    const difference = Math.hypot(...whole.gradient.map((g, i) => g - single.gradient[i]!));
    expect(difference).toBeLessThan(1e-6 * norm);
  });
});

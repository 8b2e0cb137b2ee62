/** Conversations that a limit ended, and what the value head says of them. */
import { expect, it } from "vitest";
import type { Advantages, Algorithm, Sequence } from "../algorithm/algorithm.ts";
import { type AlgorithmConfig, createAlgorithm } from "../algorithm/algorithms.ts";
import type { Ended, TrajectoryGroup } from "../conversation/trajectory.ts";
import { harvestBestOfN } from "../supervised/best-of-n.ts";
import { FunctionReward, politeShare, tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { learnFrom } from "./learn-from.ts";

const ends: readonly Ended[] = ["done", "max-turns", "max-tokens", "context-full"];

/** The same conversations, some of which a limit ended. */
async function groups(): Promise<TrajectoryGroup[]> {
  const reward = new FunctionReward(politeShare);
  const { agent } = tableAgent({ seed: 3, spread: 1 });
  const found = await harvestBestOfN({ agent, environment: tableEnvironment(), reward, aboveMean: false });
  return found.groups.map((group) => ({
    ...group,
    trajectories: group.trajectories.map((own, i) => ({ ...own, ended: ends[i % ends.length]! })),
  }));
}

async function seenBy(config: AlgorithmConfig) {
  const { policy } = tableAgent({ seed: 3, spread: 1 });
  const size = policy.model.vocabSize;
  await policy.addValueHead();
  // A critic that says something of every state: the value after a token is its id, divided by ten.
  for (let id = 0; id < size; id++) policy.parameters[size * size + id] = id / 10;
  const own = createAlgorithm(config);
  const seen: (Sequence & Advantages)[] = [];
  const algorithm: Algorithm = {
    ...own,
    advantages(sequences) {
      const result = own.advantages(sequences);
      seen.push(...sequences.map((sequence, i) => ({ ...sequence, ...result[i]! })));
      return result;
    },
  };
  const all = await groups();
  await learnFrom(policy, all, { algorithm, steps: 1, reference: await policy.reference("present") });
  return { seen, trajectories: all.flatMap(({ trajectories }) => trajectories) };
}

it.each([
  { algorithm: "ppo", beta: 0 },
  { algorithm: "a2c" },
  { algorithm: "a2c", nSteps: 2 },
  { algorithm: "vapo" },
] as const)(
  "adds V after the last token to the target of it, where a limit ended the conversation: %j",
  async (own) => {
    const plain = await seenBy({ ...own, gamma: 0.5 });
    const { seen, trajectories } = await seenBy({ ...own, gamma: 0.5, bootstrap: true });
    expect(seen).toHaveLength(trajectories.length);
    trajectories.forEach(({ chains, ended }, i) => {
      const { tokens, learn } = chains.at(-1)!;
      const last = tokens[learn.lastIndexOf(1)]!;
      const cut = ended !== "done";
      expect(seen[i]!.endValue).toEqual(cut ? expect.closeTo(last / 10, 6) : undefined);
      const added = seen[i]!.returns!.at(-1)! - plain.seen[i]!.returns!.at(-1)!;
      expect(added).toBeCloseTo(cut ? 0.5 * (last / 10) : 0, 5);
      // What is behind a limit is told to every token, discounted; an end stays an end.
      if (!cut) expect(seen[i]!.returns).toEqual(plain.seen[i]!.returns);
    });
  },
);

it("is an option of those with a value head alone", () => {
  expect(() => createAlgorithm({ algorithm: "grpo", bootstrap: true } as never)).toThrow(
    /"bootstrap" is not an option of the algorithm "grpo".*belongs to ppo, vapo, a2c/,
  );
});

import { describe, expect, it } from "vitest";
import type { Turn } from "../conversation/trajectory.ts";
import { tableAgent, tableEnvironment } from "../test-support/table-training.ts";
import { train } from "../training/train.ts";
import { SimilarityAwareReward } from "./builtin/similarity-aware.ts";
import { cachedReward } from "./cached-reward.ts";
import { CompositeReward } from "./composite-reward.ts";
import { rewardFunction } from "./define-reward.ts";
import type { RewardFunction } from "./reward-function.ts";

const said = (content: string): Turn[] => [{ role: "assistant", content }];

/** Scores by length, and counts how often. */
function counting() {
  const seen: string[] = [];
  const reward = rewardFunction({ name: "length", weight: 3 }, ({ turns }) => {
    seen.push(turns[0]!.content);
    return turns[0]!.content.length;
  });
  return { reward, seen };
}

describe("cachedReward", () => {
  it("computes a conversation once, also when it is asked for twice at the same time", async () => {
    const { reward, seen } = counting();
    const cached = cachedReward(reward);
    const both = await Promise.all([1, 2].map(() => cached.compute({ turns: said("abc") })));
    expect(both.map(({ score }) => score)).toEqual([3, 3]);
    expect((await cached.compute({ turns: said("abc") })).score).toBe(3);
    expect(await cached.compute({ turns: said("abcd") })).toMatchObject({ score: 4, breakdown: { length: 4 } });
    expect(seen).toEqual(["abc", "abcd"]);
    expect(cached.counts).toEqual({ hits: 2, computed: 2 });
    expect([cached.name, cached.weight, cached.describe()]).toEqual(["length", 3, reward.describe()]);
  });

  it("tells conversations apart by all that a reward sees of them, whatever the order of keys", async () => {
    const { reward, seen } = counting();
    const cached = cachedReward(reward);
    const turns = said("abc");
    const score = async () => [];
    const inputs = [
      [{ turns }],
      [{ turns, scenario: { id: "a" } }],
      [{ turns, scenario: { id: "a", expected: "b" } }],
      [{ turns, ended: "done" as const }],
      [{ turns, metadata: { success: true } }],
      [{ turns: [{ ...turns[0]!, metadata: { toolFailure: "denied" } }] }],
      [{ turns: [{ ...turns[0]!, reward: 1 }] }],
      [{ turns }, { evaluation: true }],
      [{ turns }, { score }],
    ] as const;
    for (const [input, context] of inputs) await cached.compute(input, context);
    expect(seen).toHaveLength(inputs.length);
    for (const [input, context] of inputs) await cached.compute(structuredClone(input), context);
    await cached.compute({ scenario: { expected: "b", id: "a" }, turns: [{ content: "abc", role: "assistant" }] });
    expect(seen).toHaveLength(inputs.length);
  });

  it("forgets what was asked for least lately", async () => {
    const { reward, seen } = counting();
    const cached = cachedReward(reward, { maxEntries: 2 });
    for (const text of ["a", "bb", "a", "ccc", "a", "bb"]) await cached.compute({ turns: said(text) });
    expect(seen).toEqual(["a", "bb", "ccc", "bb"]);
  });

  it("keeps no failure, and lets nobody fail of another's", async () => {
    let tries = 0;
    const flaky = rewardFunction(({ turns }) => {
      if (++tries === 1) throw new Error("not now");
      return turns.length;
    });
    const cached = cachedReward(flaky);
    const [first, second] = await Promise.allSettled([1, 2].map(() => cached.compute({ turns: said("a") })));
    expect([first!.status, second!.status]).toEqual(["rejected", "fulfilled"]);
    expect((await cached.compute({ turns: said("a") })).score).toBe(1);
    expect(tries).toBe(2);
  });

  it("refuses a reward that goes by the group, by name and at once, also inside a composite", async () => {
    const group = [{ turns: said("a b c") }, { turns: said("d e f") }];
    for (const reward of [new SimilarityAwareReward(), new CompositeReward([new SimilarityAwareReward()])])
      await expect(cachedReward(reward).compute(group[0]!, { group })).rejects.toThrow(
        /asked for the group.*cannot be kept/,
      );
    // In an evaluation it scores each by itself.
    await expect(
      cachedReward(new SimilarityAwareReward()).compute(group[0]!, { group, evaluation: true }),
    ).resolves.toBeDefined();
    const reward = cachedReward(new SimilarityAwareReward());
    const run = train({ agent: tableAgent().agent, environment: tableEnvironment(), reward, steps: 1, dir: false });
    await expect(run).rejects.toThrow(/asked for the group/);
  });

  it("changes nothing in a run", async () => {
    const end = async (wrap: (reward: RewardFunction) => RewardFunction) => {
      const { agent, policy } = tableAgent();
      const { reward } = counting();
      await train({ agent, environment: tableEnvironment(), reward: wrap(reward), steps: 2, dir: false, groupSize: 4 });
      return [...policy.parameters];
    };
    expect(await end(cachedReward)).toEqual(await end((reward) => reward));
  });

  it("refuses what is no reward, and options it does not have", () => {
    expect(() => cachedReward((() => 1) as never)).toThrow("was given no reward");
    expect(() => cachedReward(counting().reward, { size: 1 } as object)).toThrow(
      '"size" in cachedReward(). Valid: maxEntries',
    );
    expect(() => cachedReward(counting().reward, { maxEntries: 0 })).toThrow("maxEntries");
  });
});

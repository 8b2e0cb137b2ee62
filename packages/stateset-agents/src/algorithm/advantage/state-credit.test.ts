import { describe, expect, it } from "vitest";
import type { Sequence } from "../algorithm.ts";
import { type AlgorithmConfig, algorithmNames, createAlgorithm, resolveAlgorithm } from "../algorithms.ts";
import { checkGradient } from "../check-gradient.ts";
import { randomSequences } from "../random-batch.ts";
import { groupAdvantages } from "./group.ts";
import { sharedStates, stateAdvantages } from "./state-credit.ts";

/** A conversation of replies of one token each, at the turns 1, 3, 5, …, with the state each begins from. */
function played(states: (string | undefined)[], reward: number, own: Partial<Sequence> = {}): Sequence {
  const turn = states.map((_, k) => 2 * k + 1);
  const named = states.flatMap((state, k) => (state === undefined ? [] : [[2 * k + 1, state]]));
  return {
    group: 0,
    old: new Float32Array(turn.length).fill(-1),
    turn: Int32Array.from(turn),
    reward,
    breakdown: {},
    turnRewards: {},
    truncated: false,
    states: Object.fromEntries(named) as Record<number, string>,
    ...own,
  };
}

const rows = (sequences: Sequence[], options: Parameters<typeof stateAdvantages>[1]) =>
  stateAdvantages(sequences, options).map((own) => [...own.advantages]);

describe("credit by state", () => {
  it("adds to the advantage of the episode that of the reply among those that began from its state", () => {
    // By hand, γ ½: returns of the first replies ½·½·1 and ½·0, of the replies from "found" ½ and 0, of the last 1.
    const acts = played(["start", "found", "done"], 1);
    const talks = played(["start", "found"], 0);
    // Episode: ±½. "start": ±⅛. "found": ±¼. "done" is met once.
    expect(rows([acts, talks], { scale: "none", discount: 0.5 })).toEqual([
      [0.5 + 0.125, 0.5 + 0.25, 0.5],
      [-0.5 - 0.125, -0.5 - 0.25],
    ]);
    expect(rows([acts, talks], { scale: "none", discount: 0.5, weight: 2 })[0]).toEqual([0.75, 1, 0.5]);
  });

  it("compares replies of one conversation that came back to a state, at whatever time they came", () => {
    // Two wrong turns and back to "menu": the later a reply from there, the nearer the reward. γ ½, returns ¼, ½, 1; mean 7/12.
    const [own] = rows([played(["menu", "menu", "menu"], 1)], { scale: "none", discount: 0.5 });
    for (const [k, value] of [1 / 4, 1 / 2, 1].entries()) expect(own![k]).toBeCloseTo(value - 7 / 12, 6);
  });

  it("keeps groups apart, and replies without a state out", () => {
    const batch = [
      played(["s", undefined], 1),
      played(["t", undefined], 0),
      played(["s"], 7, { group: 1 }),
      played(["t"], 7, { group: 1 }),
    ];
    expect(stateAdvantages(batch)).toEqual(groupAdvantages(batch));
    expect(sharedStates(batch)).toBe(0);
    expect(sharedStates([played(["s", "a"], 1), played(["s", "b"], 0)])).toBe(0.5);
    expect(sharedStates([])).toBe(0);
  });

  it("places what turns earned on their replies, and what is left of the total on the last", () => {
    const paid = played(["start", "next"], 1, { turnRewards: { 1: 1 }, turnsInReward: true });
    const late = played(["start", "next"], 1);
    // Equal totals: no difference between the episodes. From "next" on 0 and 1 come, from "start" on 1 and ½.
    expect(rows([paid, late], { scale: "none", discount: 0.5 })).toEqual([
      [0.25, -0.5],
      [-0.25, 0.5],
    ]);
  });

  it.each(["group", "batch", "none"] as const)(
    "is credit by episode to the bit where no state is shared: %s",
    (scale) => {
      const batch = randomSequences({ seed: 4 }).map((own, i) => ({ ...own, states: { 1: `${i}a`, 3: `${i}b` } }));
      expect(stateAdvantages(batch, { scale })).toEqual(groupAdvantages(batch, { scale }));
      const { states: _, ...plain } = batch[0]!;
      const without = [plain, ...batch.slice(1)];
      expect(stateAdvantages(without, { scale })).toEqual(groupAdvantages(without, { scale }));
    },
  );
});

const takers = ["grpo", "dr-grpo", "bnpo", "dapo", "gspo-token", "cispo", "sapo", "trpo"] as const;

describe("credit: state", () => {
  it.each(takers)("is taken by %s: it changes the advantages, with the derivatives the loss says", (name) => {
    const config = { algorithm: name, credit: "state" } as AlgorithmConfig;
    const [algorithm, plain] = [createAlgorithm(config), createAlgorithm(name)];
    expect(algorithm.options).toMatchObject({ stateWeight: 1, stateDiscount: 0.95 });
    expect(plain.options).not.toHaveProperty("stateWeight");
    const batch = randomSequences({ seed: 2 });
    expect(algorithm.advantages(batch)).not.toEqual(plain.advantages(batch));
    const lone = batch.map(({ states: _, ...own }) => own);
    expect(algorithm.advantages(lone)).toEqual(plain.advantages(lone));
    const wide = name === "gspo-token" ? { epsilonLow: 0.1, epsilonHigh: 0.1 } : {};
    const check = checkGradient(createAlgorithm({ ...config, ...wide } as AlgorithmConfig), { tolerance: 1e-6 });
    expect(check, JSON.stringify(check.worst)).toMatchObject({ ok: true });
  });

  it("is refused by name where there is one ratio for the whole conversation, a value head, or no group", () => {
    const others = algorithmNames.filter((name) => !(takers as readonly string[]).includes(name));
    expect(others).toHaveLength(10);
    for (const name of others)
      expect(() => resolveAlgorithm({ algorithm: name, credit: "state" })).toThrow(
        `"credit" is not an option of the algorithm "${name}". It belongs to grpo,`,
      );
  });

  it("refuses what would be ignored, and what is no weight and no discount", () => {
    const grpo = (own: object) => () => resolveAlgorithm({ algorithm: "grpo", ...own });
    expect(grpo({ stateWeight: 2 })).toThrow('stateWeight is read with credit "state" alone');
    expect(grpo({ credit: "turn", stateDiscount: 1 })).toThrow("stateDiscount is read");
    expect(grpo({ credit: "state", rewardWeights: { a: 1 } })).toThrow("exclude");
    expect(grpo({ credit: "state", stateWeight: -1 })).toThrow("stateWeight");
    expect(grpo({ credit: "state", stateDiscount: 1.1 })).toThrow("stateDiscount");
    expect(grpo({ credit: "sate" })).toThrow("credit");
    const resolved = resolveAlgorithm({ algorithm: "grpo", credit: "state", stateWeight: 2 });
    expect(resolveAlgorithm(resolved)).toEqual(resolved);
  });

  it("keeps a group of equal rewards in DAPO's batch where its states teach", () => {
    const keeps = (credit: "episode" | "state") =>
      createAlgorithm({ algorithm: "dapo", credit }).keepGroup!([played(["s", "a"], 1), played(["s"], 1)]);
    expect([keeps("episode"), keeps("state")]).toEqual([false, true]);
  });
});

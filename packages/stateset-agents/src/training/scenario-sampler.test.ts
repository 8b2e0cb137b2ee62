/** Which scenarios are drawn how often. */
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { fakeGroup } from "../test-support/fake-group.ts";
import { FunctionReward, politeShare, quickRun, tableAgent } from "../test-support/table-training.ts";
import { ScenarioOrder } from "./scenario-order.ts";
import { ScenarioSampler } from "./scenario-sampler.ts";
import { train } from "./train.ts";

const root = temporaryFolder();

const group = (id: string, ...rewards: number[]) =>
  fakeGroup(
    id,
    rewards.map((reward) => ({ reward })),
  );
const scenarios = ["easy", "mixed", "hopeless", "new"].map((id) => ({ id }));
const after = (kind: "curriculum" | "hard", ...groups: ReturnType<typeof group>[]) => {
  const sampler = new ScenarioSampler({ kind, floor: 0.2 });
  sampler.note(groups);
  return sampler;
};
const seen = [group("easy", 1, 1, 1, 1), group("mixed", 0, 1, 1, 1), group("hopeless", 0, 0, 0, 0)];
/** p of each scenario. */
const shares = (sampler: ScenarioSampler, of = scenarios) => {
  const weight = sampler.weights(of)!;
  return Object.fromEntries(of.map(({ id }) => [id, weight(id) / of.length]));
};
const counts = (ids: readonly string[]) => (id: string) => ids.filter((one) => one === id).length;

describe("the shares of draws", () => {
  it("of a curriculum follow the variance of rewards, over a floor", () => {
    const own = shares(after("curriculum", ...seen));
    // Only "mixed" has variance; "new" counts like the best of them.
    for (const [id, share] of Object.entries({ easy: 0.05, mixed: 0.45, hopeless: 0.05, new: 0.45 })) {
      expect(own[id]).toBeCloseTo(share, 12);
    }
    expect(Object.values(own).reduce((a, b) => a + b)).toBeCloseTo(1, 12);
  });

  it("of hard scenarios follow the distance to the highest reward", () => {
    const own = shares(after("hard", ...seen));
    // Distances 0, 0.25, 1, and 1 for what was never drawn.
    const share = (distance: number) => 0.05 + (0.8 * distance) / 2.25;
    for (const [id, distance] of [
      ["easy", 0],
      ["mixed", 0.25],
      ["hopeless", 1],
      ["new", 1],
    ] as const) {
      expect(own[id]).toBeCloseTo(share(distance), 12);
    }
  });

  it("move with what happens: the last group counts half", () => {
    const sampler = after("curriculum", ...seen, group("new", 0, 0, 0, 0));
    expect(shares(sampler).mixed).toBeCloseTo(0.85, 12);
    // "hopeless" begins to work: mean 1/4, square 1/4, so a variance of 3/16, as "mixed" has.
    sampler.note([group("hopeless", 0, 0, 1, 1)]);
    expect(shares(sampler).hopeless).toBeCloseTo(0.05 + 0.4, 12);
    // "mixed" becomes easy: after a few groups hardly anything is left of its variance.
    for (let i = 0; i < 6; i++) sampler.note([group("mixed", 1, 1, 1, 1)]);
    expect(shares(sampler).mixed).toBeLessThan(0.07);
  });

  it("say nothing while nothing tells scenarios apart: rounds go on", () => {
    const sampler = after("curriculum", group("easy", 1, 1), group("mixed", 1, 1));
    expect(sampler.weights(scenarios)).toBe(undefined);
    // Three times 0.1 is not 0.3.
    expect(after("curriculum", group("easy", 0.1, 0.1, 0.1)).weights(scenarios)).toBe(undefined);
    const draw = (own?: ScenarioSampler) => {
      const at = new ScenarioOrder(scenarios, 3, own).weightedBy({});
      return Array.from({ length: 12 }, (_, i) => at(i).id);
    };
    expect(draw(sampler)).toEqual(draw());
  });

  it("do not count conversations that broke their environment", () => {
    const broken = group("easy", 0, 1);
    broken.trajectories[0]!.ended = "failed";
    expect(after("curriculum", broken).weights(scenarios)).toBe(undefined);
  });
});

describe("draws", () => {
  const draw = (sampler: ScenarioSampler, weights = {}) => {
    const at = new ScenarioOrder(scenarios, 3, sampler).weightedBy(weights);
    return Array.from({ length: 4000 }, (_, i) => at(i).id);
  };

  it.each(["curriculum", "hard"] as const)(
    "of %s come in these shares, none below the floor, the same for a seed",
    (kind) => {
      const sampler = after(kind, ...seen);
      const ids = draw(sampler);
      const of = counts(ids);
      for (const [id, share] of Object.entries(shares(sampler))) {
        expect(of(id) / ids.length).toBeCloseTo(share, 1);
        expect(of(id) / ids.length).toBeGreaterThan(0.03);
      }
      expect(draw(sampler)).toEqual(ids);
    },
  );

  it("heed the weights of callbacks too", () => {
    const of = counts(draw(after("curriculum", ...seen), { mixed: 0 }));
    expect(of("mixed")).toBe(0);
    expect(of("new")).toBeGreaterThan(2000);
  });
});

describe("in a run", () => {
  const environment = new ConversationEnvironment({
    scenarios: ["easy", "mixed", "hopeless"].map((id) => ({ id, userResponses: ["order late"] })),
    maxTurns: 1,
  });
  const reward = new FunctionReward((turns, { scenario }) =>
    scenario!.id === "easy" ? 1 : scenario!.id === "hopeless" ? 0 : politeShare(turns),
  );
  const run = async (options: object) => {
    const { agent, policy } = tableAgent({ spread: 1 });
    const drawn: string[] = [];
    const onRollouts = ({ groups }: { groups: readonly { scenarioId: string }[] }) =>
      void drawn.push(...groups.map(({ scenarioId }) => scenarioId));
    const given = { ...quickRun, agent, environment, reward, groupsPerStep: 3, steps: 12, learningRate: 0.02 };
    const { callbacks = [], ...rest } = options as { callbacks?: object[] };
    const result = await train({ ...given, ...rest, callbacks: [{ onRollouts }, ...callbacks] });
    return { drawn: counts(drawn), run: result.run, parameters: policy.parameters };
  };

  it.each([
    ["curriculum", "mixed"],
    ["hard", "hopeless"],
  ] as const)("%s plays the scenario “%s” most, and the others still", async (kind, most) => {
    const even = await run({});
    for (const id of ["easy", "mixed", "hopeless"]) expect(even.drawn(id)).toBe(12);
    const { drawn } = await run({ sampler: { kind } });
    expect(drawn(most)).toBeGreaterThan(15);
    for (const id of ["easy", "mixed", "hopeless"]) expect(drawn(id)).toBeGreaterThan(0);
  });

  it("goes on from a checkpoint to the same draws and the same bits", async () => {
    const settings = { sampler: { kind: "curriculum" }, checkpoint: { every: 1 }, name: "run" } as const;
    const whole = await run({ ...settings, dir: join(root, "whole") });
    const stop = new AbortController();
    const onStepEnd = ({ step }: { step: number }) => void (step === 5 && stop.abort());
    const dir = join(root, "stopped");
    const first = await run({ ...settings, dir, callbacks: [{ onStepEnd }], signal: stop.signal });
    const second = await run({ resumeFrom: dir, dir: undefined });
    for (const id of ["easy", "mixed", "hopeless"]) expect(first.drawn(id) + second.drawn(id)).toBe(whole.drawn(id));
    expect(second.parameters).toEqual(whole.parameters);
    expect(second.run.metrics).toEqual(whole.run.metrics);
  });
});

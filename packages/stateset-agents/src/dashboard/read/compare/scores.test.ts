import { describe, expect, it } from "vitest";
import type { EvaluationData } from "../../api/index.ts";
import { scoresBySet, scoresToCompare, unlike } from "./scores.ts";

function evaluation(set: EvaluationData["set"], step: number, means: Readonly<Record<string, number>>): EvaluationData {
  const scenarios = Object.entries(means).map(([id, mean]) => ({ id, mean, spread: null, samples: 1, failed: 0 }));
  const nothing = { weightsOf: null, reward: null, parts: {}, numbers: {}, failed: 0, lost: 0, failures: [] };
  return { set, step, scenarios, ...nothing };
}

const run = (key: string, evaluations: readonly EvaluationData[], reward = "polite", heldOut = "pool") => ({
  key,
  config: { reward: { name: reward }, heldOut: { of: heldOut } },
  measured: scoresBySet(evaluations),
});
const both = run("both", [
  evaluation("report", 0, { a: 0 }),
  evaluation("report", 4, { a: 1 }),
  evaluation("selection", 4, { b: 2 }),
]);
const chooses = run("chooses", [evaluation("selection", 2, { b: 3 })]);

describe("scores of several runs", () => {
  it("are of one set, that all have", () => {
    expect(scoresToCompare([both]).map(({ set, scores }) => [set, ...scores])).toEqual([["report", ["a", 1]]]);
    expect(scoresToCompare([both, chooses, run("none", [])]).map(({ set, scores }) => [set, ...scores])).toEqual([
      ["selection", ["b", 2]],
      ["selection", ["b", 3]],
      [undefined],
    ]);
  });

  it("say which of two is better only where the reward and the scenarios are the same", () => {
    const at = (key: string, means: Readonly<Record<string, number>>, ...rest: string[]) =>
      scoresToCompare([run(key, [evaluation("report", 1, means)], ...rest)])[0]!;
    const one = at("one", { a: 1, b: 1 });
    // Another seed holds out others of the same pool.
    expect(unlike(one, at("seed", { b: 2, c: 2 }))).toBeNull();
    expect(unlike(one, at("reward", { a: 2 }, "kind"))).toBe("rewards");
    expect(unlike(one, at("pool", { a: 2 }, "polite", "other"))).toBe("scenarios");
    expect(unlike(one, at("apart", { c: 2 }))).toBe("scenarios");
    const [chosen] = scoresToCompare([run("chosen", [evaluation("selection", 1, { a: 1 })])]);
    expect(unlike(one, chosen!)).toBe("scenarios");
  });
});

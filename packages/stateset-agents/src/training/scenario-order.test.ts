import { describe, expect, it } from "vitest";
import { ScenarioOrder } from "./scenario-order.ts";

const scenarios = ["a", "b", "c", "d", "e"].map((id) => ({ id }));
const draw = (seed: number, positions: number, weights = {}) => {
  const at = new ScenarioOrder(scenarios, seed).weightedBy(weights);
  return Array.from({ length: positions }, (_, position) => at(position).id);
};

describe("the order of scenarios", () => {
  it("is that of the position alone, in whatever order positions are asked for", () => {
    const order = new ScenarioOrder(scenarios, 3);
    for (const at of [order.weightedBy({}), order.weightedBy({ a: 3 })]) {
      const ahead = Array.from({ length: 30 }, (_, i) => at(i).id);
      expect(Array.from({ length: 30 }, (_, i) => at(29 - i).id).reverse()).toEqual(ahead);
    }
  });

  it("gives every scenario once per round, each round in another order", () => {
    const ids = draw(1, 15);
    const rounds = [ids.slice(0, 5), ids.slice(5, 10), ids.slice(10)];
    for (const round of rounds) expect([...round].sort()).toEqual(["a", "b", "c", "d", "e"]);
    expect(new Set(rounds.map((round) => round.join(""))).size).toBeGreaterThan(1);
    expect(draw(1, 15)).toEqual(ids);
    expect(draw(2, 15)).not.toEqual(ids);
  });

  it("draws by weight where there are weights, and never what weighs nothing", () => {
    const ids = draw(1, 2000, { a: 4, b: 0 });
    const share = (id: string) => ids.filter((drawn) => drawn === id).length / ids.length;
    expect(share("a")).toBeCloseTo(4 / 7, 1);
    expect(share("b")).toBe(0);
    expect(share("c")).toBeCloseTo(1 / 7, 1);
  });

  it("goes back to rounds when all weigh the same again, be it nothing", () => {
    expect(draw(1, 15, { a: 1, c: 1 })).toEqual(draw(1, 15));
    expect(draw(1, 15, { a: 0, b: 0, c: 0, d: 0, e: 0 })).toEqual(draw(1, 15));
  });
});

/** Finite differences of the losses that are not algorithms, on random pairs with ragged lengths. */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../random.ts";
import { bradleyTerryLoss } from "./bradley-terry.ts";
import { dpoLoss } from "./dpo.ts";
import { ipoLoss } from "./ipo.ts";
import type { PreferencePair } from "./preference.ts";
import { sftLoss } from "./sft.ts";

const random = createRandom(11);
const logprobs = () => Float32Array.from({ length: 1 + random.below(9) }, () => -3 * random.next());
const side = () => {
  const own = logprobs();
  return { logprobs: own, ref: own.map((x) => x + random.next() - 0.5) };
};
const pairs: PreferencePair[] = Array.from({ length: 20 }, () => ({ chosen: side(), rejected: side() }));

/** The slope of f when numbers[i] moves; the distance is taken as float32 rounds it. */
function slope(numbers: Float32Array, i: number, f: () => number): number {
  const x = numbers[i]!;
  const at = (value: number) => {
    numbers[i] = value;
    return { x: numbers[i]!, y: f() };
  };
  const [low, high] = [at(x - 2 ** -9), at(x + 2 ** -9)];
  numbers[i] = x;
  return (high.y - low.y) / (high.x - low.x);
}

describe("derivatives are those of the value", () => {
  it.each([
    ["DPO", dpoLoss({ beta: 0.3 })],
    ["IPO", ipoLoss({ beta: 0.3 })],
  ])("%s", (_, lossOf) => {
    const counts = { pairs: 25 };
    const { dChosen, dRejected } = lossOf(pairs, counts);
    const value = () => lossOf(pairs, counts).loss;
    for (const [n, { chosen, rejected }] of pairs.entries()) {
      for (const t of chosen.logprobs.keys()) expect(slope(chosen.logprobs, t, value)).toBeCloseTo(dChosen[n]![t]!, 6);
      for (const t of rejected.logprobs.keys())
        expect(slope(rejected.logprobs, t, value)).toBeCloseTo(dRejected[n]![t]!, 6);
    }
    expect(Math.max(...dChosen.flatMap((own) => [...own].map(Math.abs)))).toBeGreaterThan(1e-3);
  });

  it("Bradley–Terry, with margins", () => {
    const [chosen, rejected] = [0, 1].map(() => Float32Array.from({ length: 20 }, () => 4 * random.next() - 2));
    const scored = () => pairs.map((_, i) => ({ chosen: chosen![i]!, rejected: rejected![i]!, margin: i / 10 }));
    const value = () => bradleyTerryLoss(scored(), { pairs: 25 }).loss;
    const { dChosen, dRejected } = bradleyTerryLoss(scored(), { pairs: 25 });
    for (const i of pairs.keys()) {
      expect(slope(chosen!, i, value)).toBeCloseTo(dChosen[i]!, 6);
      expect(slope(rejected!, i, value)).toBeCloseTo(dRejected[i]!, 6);
    }
  });

  it("SFT", () => {
    const micro = pairs.map(({ chosen }) => ({ logprobs: chosen.logprobs }));
    const value = () => sftLoss(micro, { tokens: 200 }).loss;
    const { dLogprobs } = sftLoss(micro, { tokens: 200 });
    for (const [n, own] of micro.entries())
      for (const t of own.logprobs.keys()) expect(slope(own.logprobs, t, value)).toBeCloseTo(dLogprobs[n]![t]!, 6);
  });
});

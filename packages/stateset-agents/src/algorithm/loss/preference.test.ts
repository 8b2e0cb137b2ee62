/** Finite differences of the losses that are not algorithms, on random pairs with ragged lengths. */
import { describe, expect, it } from "vitest";
import { createRandom } from "../../random.ts";
import { bradleyTerryLoss } from "./bradley-terry.ts";
import { dpoLoss } from "./dpo.ts";
import { hingeLoss } from "./hinge.ts";
import { ipoLoss } from "./ipo.ts";
import { ktoLoss } from "./kto.ts";
import { orpoLoss } from "./orpo.ts";
import type { PreferencePair } from "./preference.ts";
import { robustDpoLoss } from "./robust-dpo.ts";
import { sftLoss } from "./sft.ts";

const random = createRandom(11);
const logprobs = () => Float32Array.from({ length: 1 + random.below(9) }, () => -3 * random.next());
const side = () => {
  const own = logprobs();
  return { logprobs: own, ref: own.map((x) => x + random.next() - 0.5) };
};
const pairs: PreferencePair[] = Array.from({ length: 20 }, () => ({ chosen: side(), rejected: side() }));

/** The slope of f when numbers[i] moves by `step`; the distance is taken as float32 rounds it. */
function slope(numbers: Float32Array, i: number, f: () => number, step = 2 ** -9): number {
  const x = numbers[i]!;
  const at = (value: number) => {
    numbers[i] = value;
    return { x: numbers[i]!, y: f() };
  };
  const [low, high] = [at(x - step), at(x + step)];
  numbers[i] = x;
  return (high.y - low.y) / (high.x - low.x);
}

describe("derivatives are those of the value", () => {
  it.each([
    ["DPO", dpoLoss({ beta: 0.3 })],
    ["conservative DPO", dpoLoss({ beta: 0.3, labelSmoothing: 0.2 })],
    ["robust DPO", robustDpoLoss({ beta: 0.3, labelSmoothing: 0.2 })],
    ["hinge", hingeLoss({ beta: 0.3 })],
    ["IPO", ipoLoss({ beta: 0.3 })],
    ["ORPO", orpoLoss({ beta: 0.3 })],
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

  it("ORPO where a reply is all but certain, on both sides of the bound of its odds", () => {
    for (const own of [-5e-7, -1e-4]) {
      const sure = { logprobs: Float32Array.of(own), ref: Float32Array.of(0) };
      const other = { logprobs: Float32Array.of(-0.7), ref: Float32Array.of(0) };
      for (const pair of [
        { chosen: sure, rejected: other },
        { chosen: other, rejected: sure },
      ]) {
        const value = () => orpoLoss()([pair], { pairs: 1 }).loss;
        const { dChosen, dRejected } = orpoLoss()([pair], { pairs: 1 });
        const derivative = pair.chosen === sure ? dChosen[0]![0]! : dRejected[0]![0]!;
        const difference = slope(sure.logprobs, 0, value, Math.abs(own) / 64);
        expect(Math.abs(derivative - difference)).toBeLessThan(1e-3 * Math.max(1, Math.abs(difference)));
      }
    }
  });

  it.each([0, 0.7])("KTO, with a baseline of %s", (baseline) => {
    const lossOf = ktoLoss({ beta: 0.3, desirableWeight: 1.3, undesirableWeight: 0.6 });
    const micro = pairs.map(({ chosen }, i) => ({ ...chosen, desirable: i % 3 > 0 }));
    const value = () => lossOf(micro, { completions: 25 }, baseline).loss;
    const { dLogprobs } = lossOf(micro, { completions: 25 }, baseline);
    for (const [n, own] of micro.entries())
      for (const t of own.logprobs.keys()) expect(slope(own.logprobs, t, value)).toBeCloseTo(dLogprobs[n]![t]!, 6);
    expect(Math.max(...dLogprobs.flatMap((own) => [...own].map(Math.abs)))).toBeGreaterThan(1e-3);
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

describe("what the variants are for", () => {
  const pairOf = (margin: number): PreferencePair => ({
    chosen: { logprobs: Float32Array.of(margin - 5), ref: Float32Array.of(-5) },
    rejected: { logprobs: Float32Array.of(-1), ref: Float32Array.of(-1) },
  });
  const flipped = ({ chosen, rejected }: PreferencePair): PreferencePair => ({ chosen: rejected, rejected: chosen });
  const pull = (lossOf: ReturnType<typeof dpoLoss>, margin: number) =>
    lossOf([pairOf(margin)], { pairs: 1 }).dChosen[0]![0]!;

  it("label smoothing pulls back a margin at which the model is surer than the labels are", () => {
    const best = Math.log(0.9 / 0.1);
    expect(pull(dpoLoss({ beta: 1, labelSmoothing: 0.1 }), best)).toBeCloseTo(0, 6);
    expect(pull(dpoLoss({ beta: 1, labelSmoothing: 0.1 }), best + 1)).toBeGreaterThan(0);
    expect(pull(dpoLoss({ beta: 1 }), best + 1)).toBeLessThan(0);
  });

  it("robust DPO over labels of which a share is flipped is DPO over the true ones", () => {
    const noise = 0.2;
    const lossOf = robustDpoLoss({ beta: 0.5, labelSmoothing: noise });
    for (const margin of [-3, 0, 2]) {
      const pair = pairOf(margin);
      const one = (p: PreferencePair) => lossOf([p], { pairs: 1 }).loss;
      const mean = (1 - noise) * one(pair) + noise * one(flipped(pair));
      expect(mean).toBeCloseTo(dpoLoss({ beta: 0.5 })([pair], { pairs: 1 }).loss, 6);
    }
  });

  it("the hinge stops at a margin of 1/β", () => {
    expect(pull(hingeLoss({ beta: 0.5 }), 1.9)).toBe(-0.5);
    expect(pull(hingeLoss({ beta: 0.5 }), 2.1)).toBe(0);
  });

  it("ORPO stays finite where a reply is certain", () => {
    const certain = { chosen: { logprobs: Float32Array.of(0), ref: Float32Array.of(0) } };
    for (const rejected of [certain.chosen, { logprobs: Float32Array.of(-60), ref: Float32Array.of(0) }]) {
      for (const pair of [
        { ...certain, rejected },
        { chosen: rejected, rejected: certain.chosen },
      ]) {
        const { loss, dChosen, dRejected } = orpoLoss()([pair], { pairs: 1 });
        for (const number of [loss, dChosen[0]![0]!, dRejected[0]![0]!]) expect(number).toSatisfy(Number.isFinite);
      }
    }
  });
});

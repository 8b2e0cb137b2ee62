import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, it } from "vitest";
import { gaeAdvantages } from "./advantage/gae.ts";
import { leaveOneOutAdvantages } from "./advantage/leave-one-out.ts";
import type { Algorithm, LossFunction } from "./algorithm.ts";
import { createAlgorithm } from "./algorithms.ts";
import { checkGradient } from "./check-gradient.ts";
import { defineAlgorithm } from "./define-algorithm.ts";
import { grpoLoss } from "./loss/grpo.ts";
import { tokenLoss } from "./loss/token-loss.ts";
import { meanMetrics, mergeMetrics } from "./metrics.ts";
import { countsOf, randomLossSequences, randomSequences, withPolicy } from "./random-batch.ts";

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));
const plain: LossFunction = tokenLoss(({ logprob, advantage }) => ({ loss: -advantage * logprob, slope: -advantage }));

describe("defineAlgorithm", () => {
  it("makes an algorithm that createAlgorithm takes as it is", () => {
    const own = defineAlgorithm({ name: "plain", loss: plain });
    expect(createAlgorithm(own)).toBe(own);
    expect(own.needs).toEqual({});
    expect(own.comparesGroups).toBe(true);
    expect(defineAlgorithm({ name: "own", loss: plain, advantages: gaeAdvantages }).comparesGroups).toBe(false);
    expect(own.advantages(randomSequences())).toHaveLength(12);
  });

  it("takes over parts of a built-in algorithm", () => {
    const own = defineAlgorithm({ ...createAlgorithm("dapo"), name: "mine", advantages: leaveOneOutAdvantages });
    expect(own).toMatchObject({ name: "mine", maxSamplingRounds: 10 });
    const sequences = randomSequences();
    expect(own.advantages(sequences)[0]!.advantages).toEqual(leaveOneOutAdvantages(sequences)[0]!.advantages);
  });

  it("refuses a missing name, a built-in one, and a loss that is none", () => {
    expect(() => defineAlgorithm({ name: "", loss: plain })).toThrow(/name is missing/);
    expect(() => defineAlgorithm({ name: "grpo", loss: plain })).toThrow(/built-in/);
    expect(() => defineAlgorithm({ name: "x", loss: 3 as never })).toThrow(/not a function/);
    expect(() => defineAlgorithm(undefined as never)).toThrow(/name is missing/);
  });

  it("suggests the part that was meant instead of ignoring a misspelt one", () => {
    const misspelt = { name: "x", loss: plain, keepGruop: () => true };
    expect(() => defineAlgorithm(misspelt)).toThrow(/no part "keepGruop". Did you mean "keepGroup"/);
  });

  it("says so when a term of the loss needs what the algorithm did not ask for", () => {
    const point = () => ({ loss: 0, slope: 0 });
    const micro = randomLossSequences().map(({ ref: _, entropy: __, ...rest }) => rest);
    const run = (loss: LossFunction) => () => defineAlgorithm({ name: "x", loss }).loss(micro, countsOf(micro));
    expect(run(tokenLoss(point, { beta: 0.1 }))).toThrow(/KL penalty.*needs: \{ reference: true \}/);
    expect(run(tokenLoss(point, { entropyCoefficient: 0.1 }))).toThrow(/entropy bonus.*needs: \{ entropy: true \}/);
    expect(() => defineAlgorithm({ name: "x", loss: plain, needs: { refrence: true } as never })).toThrow(
      /no need "refrence". Did you mean "reference"/,
    );
  });

  it("names a metric that is no sum and count, and takes any name for one", () => {
    const micro = randomLossSequences();
    const withMetrics = (metrics: object | undefined) =>
      defineAlgorithm({
        name: "x",
        loss: (...args) => ({ ...plain(...args), metrics: metrics as never }),
      }).loss(micro, countsOf(micro));
    for (const wrong of [{ odd: 3 }, { odd: null }]) {
      expect(() => withMetrics(wrong)).toThrow(/metric "odd".*\{ sum, count \}/);
    }
    expect(() => withMetrics(undefined)).toThrow(/metrics: \{\}/);
    const names = ["constructor", "toString", "__proto__"];
    const sums = Object.fromEntries(names.map((name) => [name, { sum: 3, count: 2 }]));
    const { metrics } = withMetrics(sums);
    expect(meanMetrics(mergeMetrics(mergeMetrics({}, metrics), metrics))).toMatchObject({
      constructor: 1.5,
      toString: 1.5,
    });
    expect("sum" in {}).toBe(false);
  });

  it("names results of the wrong shape", () => {
    const micro = randomLossSequences();
    const short = defineAlgorithm({ name: "short", loss: () => ({ loss: 0, dLogprobs: [], metrics: {} }) });
    expect(() => short.loss(micro, countsOf(micro))).toThrow(
      /loss\(\) of "short" returned 0 dLogprobs for 12 sequences/,
    );
    const ragged = defineAlgorithm({
      name: "ragged",
      advantages: (sequences) => sequences.map(() => ({ advantages: new Float32Array(1) })),
      loss: (all) => ({ loss: 0, dLogprobs: all.map(() => new Float32Array(0)), metrics: {} }),
    });
    expect(() => ragged.loss(micro, countsOf(micro))).toThrow(/returned 0 numbers in dLogprobs\[0\]/);
    expect(() => ragged.advantages(micro)).toThrow(/another number of tokens/);
    const none = defineAlgorithm({ name: "none", advantages: () => [], loss: plain });
    expect(() => none.advantages(micro)).toThrow(/0 entries for 12 sequences/);
  });

  it("can use every aggregation, the one that needs group sizes included", () => {
    for (const aggregation of ["token-mean", "sequence-mean", "sequence-sum", "group-mean", "fixed-length"] as const) {
      const own = defineAlgorithm({
        name: "own",
        loss: tokenLoss(
          ({ logRatio, advantage }) => {
            const loss = -Math.exp(logRatio) * advantage;
            return { loss, slope: loss };
          },
          { aggregation, beta: 0.1, entropyCoefficient: 0.1 },
        ),
      });
      expect(checkGradient(own, { tolerance: 1e-6 }).ok).toBe(true);
    }
  });
});

describe("checkGradient", () => {
  it("accepts a right derivative and finds the wrong one", () => {
    expect(checkGradient(plain)).toMatchObject({ ok: true, skipped: 0 });
    const wrong = checkGradient(
      tokenLoss(({ logprob, advantage }) => ({ loss: -advantage * logprob ** 2, slope: -advantage * logprob })),
    );
    expect(wrong.ok).toBe(false);
    expect(wrong.worst).toMatchObject({ input: "logprobs" });
    expect(wrong.worst!.measured).toBeCloseTo(2 * wrong.worst!.stated, 4);
  });

  it("finds an error of one part in a thousand, a forgotten term, and a missing derivative", () => {
    const scaled: LossFunction = (micro, counts) => {
      const result = grpoLoss({ epsilonLow: 0.2, epsilonHigh: 0.2 })(micro, counts);
      return { ...result, dLogprobs: result.dLogprobs.map((own) => own.map((d) => d * 1.001)) };
    };
    expect(checkGradient(scaled).ok).toBe(false);
    const forgotten: LossFunction = (micro, counts) => {
      const { dEntropy: _, ...result } = grpoLoss({ epsilonLow: 0.2, epsilonHigh: 0.2, entropyCoefficient: 0.1 })(
        micro,
        counts,
      );
      return result;
    };
    expect(checkGradient(forgotten).worst).toMatchObject({ input: "entropy", stated: 0 });
    expect(checkGradient(forgotten).ok).toBe(false);
    const broken = tokenLoss(() => ({ loss: Number.NaN, slope: 0 }));
    expect(checkGradient(broken).ok).toBe(false);
  });

  it("takes stop-gradient factors from `frozen`", () => {
    const factor = (frozen: number, old: number) => Math.exp(frozen - old);
    const stopped = tokenLoss(({ logprob, frozen, old, advantage }) => {
      const weight = factor(frozen, old) * advantage;
      return { loss: -weight * logprob, slope: -weight };
    });
    const forgot = tokenLoss(({ logprob, old, advantage }) => {
      const weight = factor(logprob, old) * advantage;
      return { loss: -weight * logprob, slope: -weight };
    });
    expect([checkGradient(stopped).ok, checkGradient(forgot).ok]).toEqual([true, false]);
  });

  it("checks on a batch of the user's own", () => {
    const sequences = randomLossSequences({ seed: 4, groups: 1, groupSize: 2 });
    expect(checkGradient(plain, { sequences }).checked).toBe(3 * countsOf(sequences).tokens);
  });
});

describe("docs/guides/custom-algorithms.md", () => {
  const dir = mkdtempSync(join(tmpdir(), "guide-"));
  afterAll(() => rmSync(dir, { recursive: true, force: true }));
  const guide = readFileSync(path("../../../../docs/guides/custom-algorithms.md"), "utf8");
  const blocks = [...guide.matchAll(/```ts\n([\s\S]*?)```/g)].map((match) => match[1]!);

  /** Runs a block as it stands, except that the package is this source tree. */
  async function run(block: string, name: string): Promise<Record<string, unknown>> {
    const file = join(dir, `${name}.ts`);
    writeFileSync(file, block.replaceAll('"stateset-agents/algorithms"', JSON.stringify(path("./index.ts"))));
    return (await import(/* @vite-ignore */ file)) as Record<string, unknown>;
  }

  it("shows a new loss in under 40 lines that runs and passes its own gradient check", async () => {
    expect(blocks).toHaveLength(3);
    expect(blocks[0]!.trim().split("\n").length).toBeLessThan(40);
    const { spo } = (await run(blocks[0]!, "spo")) as { spo: Algorithm };
    expect(checkGradient(spo, { tolerance: 1e-6 })).toMatchObject({ ok: true, skipped: 0 });
    expect(spo.name).toBe("spo");
  });

  it("puts a loss together of the built-in parts", async () => {
    const { byLength, check } = (await run(blocks[1]!, "parts")) as { byLength: Algorithm; check: { ok: boolean } };
    expect(check.ok).toBe(true);
    const sequences = randomSequences({ seed: 3 });
    const scored = (algorithm: Algorithm, own = sequences) => {
      const advantages = algorithm.advantages(own);
      return withPolicy(own.map((sequence, i) => ({ ...sequence, ...advantages[i]! })));
    };
    const gmpo = createAlgorithm({ algorithm: "gmpo", epsilonHigh: 0.6, beta: 0.02 });
    const [one, other] = [byLength, gmpo].map((algorithm) =>
      scored(algorithm).map((own) => algorithm.loss([own], countsOf(sequences)).loss),
    );
    for (const [i, { old }] of sequences.entries()) expect(one![i]).toBeCloseTo(old.length * other![i]!, 10);
  });

  it("shows advantages of one's own", async () => {
    const { bestAgainstWorst, check } = (await run(blocks[2]!, "advantages")) as {
      bestAgainstWorst: Algorithm;
      check: { ok: boolean };
    };
    expect(check.ok).toBe(true);
    const sequences = randomSequences({ groups: 1, groupSize: 3 });
    const given = bestAgainstWorst.advantages(sequences).map((own) => own.advantages[0]);
    expect([...given].sort()).toEqual([-1, 0, 1]);
  });

  it("imports only what the package exports", () => {
    expect(readFileSync(path("../doors/algorithms.ts"), "utf8")).toContain('export * from "../algorithm/index.ts"');
  });
});

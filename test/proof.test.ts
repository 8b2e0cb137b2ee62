/** What `npm run proof` decides by: the reward, the budgets, and the comparison with SFT on best-of-N. The training itself is not run here. */
import { describe, expect, it } from "vitest";
import { against, comparisons, table } from "../benchmarks/proof/report.ts";
import { baselines, run } from "../benchmarks/proof/settings.ts";
import { LetterReward, letterEnvironment, task } from "../benchmarks/proof/task.ts";
import { compare, conversationsTo, type Verdict } from "../benchmarks/proof/verdict.ts";

function verdict(means: readonly number[], standardError = 0.005): Verdict {
  const after = means.reduce((sum, mean) => sum + mean, 0) / means.length;
  const bySeed = means.map((mean, i) => ({ seed: i + 1, mean, low: mean - 0.01, high: mean + 0.01, standardError }));
  const numbers = { seconds: 1, updates: 10, updatesToHalf: 4, conversations: 1000, seeds: means.length };
  const curve = [0.3, 0.8, 0.95, 0.85, 0.96];
  return { before: 0.3, after, flipped: 0, rises: true, falls: true, bySeed, curve, flippedCurve: curve, ...numbers };
}

describe("the proof's comparison", () => {
  const baseline = verdict([0.8, 0.7, 0.75]);

  it("calls better or worse only what the interval separates from zero", () => {
    expect(compare(verdict([0.99, 0.98, 0.99]), baseline)).toMatchObject({ verdict: "better" });
    expect(compare(baseline, verdict([0.99, 0.98, 0.99]))).toMatchObject({ verdict: "worse" });
    expect(compare(verdict([0.82, 0.68, 0.76]), baseline)).toMatchObject({ verdict: "even" });
    expect(compare(baseline, baseline)).toMatchObject({ mean: 0, verdict: "even" });
  });

  it("counts one bad seed as doubt, and the noise of few conversations too", () => {
    expect(compare(verdict([0.99, 0.99, 0.6]), baseline)!.verdict).toBe("even");
    expect(compare(verdict([0.83, 0.73, 0.78], 0.001), verdict([0.8, 0.7, 0.75], 0.001))!.verdict).toBe("better");
    expect(compare(verdict([0.83, 0.73, 0.78], 0.1), baseline)!.verdict).toBe("even");
  });

  it("pairs seeds, and says nothing where none is shared", () => {
    const difference = compare(verdict([0.9]), baseline)!;
    expect(difference.mean).toBeCloseTo(0.1, 12);
    expect(difference.low).toBeGreaterThan(0.07);
    const elsewhere = { ...baseline, bySeed: baseline.bySeed.map((own) => ({ ...own, seed: own.seed + 10 })) };
    expect(compare(verdict([0.9]), elsewhere)).toBeUndefined();
  });

  it("shows the decision in the table", () => {
    const known = { grpo: verdict([0.99, 0.98, 0.99]), a2c: verdict([0.6, 0.61, 0.6]), "sft-best-of-n": baseline };
    const rows = table(known).split("\n");
    expect(rows[2]).toMatch(/^\| grpo .*\| yes \| yes \| yes \|/);
    expect(rows[3]).toMatch(/^\| a2c .*\| yes \| yes \| NO \|/);
    expect(rows[4]).toMatch(/^\| sft-best-of-n .*\| yes \| yes \| – \|/);
    expect(comparisons(known)).toContain("one round (0.750)");
    expect(comparisons({ grpo: known.grpo })).toBeUndefined();
    expect(Object.keys(against("grpo", known))).toEqual(["sft-best-of-n"]);
  });

  it("counts conversations until the curve stays above a share", () => {
    expect(conversationsTo(0.9, verdict([0.97]))).toBe(800);
    expect(conversationsTo(0.9, verdict([0.85]))).toBeUndefined();
  });
});

describe("the proof's task", () => {
  const talk = (first: string, second: string) => ({
    turns: [
      { role: "user" as const, content: "low" },
      { role: "assistant" as const, content: first },
      { role: "user" as const, content: "high" },
      { role: "assistant" as const, content: second },
    ],
  });

  it("rewards the letters that were asked for", async () => {
    const reward = new LetterReward();
    expect(await reward.compute(talk("abc", "xyz"))).toEqual({ score: 2, breakdown: { share: 1 } });
    expect(await reward.compute(talk("abxy", "xyz"))).toEqual({ score: 1, breakdown: { share: 0.75 } });
    expect(await reward.compute(talk("", "mmm"))).toEqual({ score: -2, breakdown: { share: 0 } });
    const flipped = await new LetterReward(-1).compute(talk("abc", "xyz"));
    expect(flipped).toEqual({ score: -2, breakdown: { share: 1 } });
  });

  it("pays a third to whoever does not listen", async () => {
    const reward = new LetterReward();
    let sum = 0;
    for (const { userResponses } of letterEnvironment().scenarios) {
      const turns = userResponses.flatMap((content) => [
        { role: "user" as const, content },
        { role: "assistant" as const, content: "aaapz" },
      ]);
      sum += (await reward.compute({ turns })).breakdown.share!;
    }
    expect(sum / task.scenarios).toBeCloseTo(1 / 3, 12);
  });

  it("gives every baseline as many conversations as the algorithms have, and no fewer updates", () => {
    const conversations = run.steps * run.groupsPerStep * run.groupSize;
    for (const { rounds, n, keep, updates } of Object.values(baselines)) {
      const own = rounds * n * task.scenarios;
      expect(own).toBeGreaterThanOrEqual(conversations);
      expect(own).toBeLessThan(1.05 * conversations);
      expect(rounds * updates).toBeGreaterThanOrEqual(run.steps);
      expect(Number.isInteger(updates)).toBe(true);
      expect(keep).toBeLessThan(n);
    }
  });
});

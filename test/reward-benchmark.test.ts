/** What `npm run bench:reward` counts and writes, and that TRL is given the reward that train() gives. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TrajectoryGroup, train } from "stateset-agents";
import { afterAll, describe, expect, it } from "vitest";
import { keepRecord } from "../benchmarks/results.ts";
import { leastWork, median, mediansOf, ratiosOf, reachedAt, type Training } from "../benchmarks/reward/measure.ts";
import { cite, headline, page, type RewardRecord } from "../benchmarks/reward/report.ts";
import { environment, openers, reward, rewardsOf, settings } from "../benchmarks/reward/task.ts";
import { demoAgent } from "../packages/stateset-agents/src/cli/demo/parts.ts";
import { createReferenceScorer } from "../packages/stateset-agents/src/reward/reference-scorer.ts";

const training = (steps: number, cpuSeconds: number, seconds: number): Training => ({
  rewards: Array.from({ length: steps }, () => 0.9),
  cpuSeconds,
  seconds,
  totalCpuSeconds: cpuSeconds + 1,
  setupSeconds: 1,
  meanTokens: 12,
});

describe("time to reward", () => {
  it("ends with the first three steps in a row whose mean reaches the target", () => {
    expect(reachedAt([0.5, 1, 1, 0.6, 0.95, 0.9, 0.85], 0.9, 3)).toBe(7);
    expect(reachedAt([0.5, 1, 1, 0.75], 0.9, 3)).toBe(4);
    expect(reachedAt([1, 1, 1], 0.9, 3)).toBe(3);
    expect(reachedAt([1, 1], 0.9, 3)).toBeUndefined();
    expect(reachedAt([0.8, 0.9, 0.9], 0.9, 3)).toBeUndefined();
  });

  it("takes medians over the seeds, also of an even number", () => {
    expect(median([3, 1, 2])).toBe(2);
    expect(median([4, 1, 3, 2])).toBe(2.5);
    const medians = mediansOf([training(10, 20, 12), training(5, 5, 4), training(6, 9, 6)]);
    expect(medians).toEqual({ steps: 6, cpuSeconds: 9, seconds: 6, cpuSecondsAStep: 1.5, totalCpuSeconds: 10 });
  });

  it("compares the best of either side for each figure by itself", () => {
    const ours = [
      { threads: 2, trainings: [training(6, 4, 2)] },
      { threads: 1, trainings: [training(6, 3, 3)] },
    ];
    const peers = [
      { threads: 2, trainings: [training(8, 48, 26)] },
      { threads: 1, trainings: [training(8, 40, 40)] },
    ];
    const ratios = ratiosOf(ours, peers);
    expect(ratios.cpuSeconds).toBeCloseTo(40 / 3);
    expect(ratios.seconds).toBeCloseTo(13);
    expect(ratios.cpuSecondsAStep).toBeCloseTo(10);
    expect(ratios.steps).toBeCloseTo(8 / 6);
  });

  it("counts every distinct token five times with the layers, and a reply's with the output layer too", () => {
    const work = { layers: 100, output: 10 };
    expect(leastWork([{ prompt: 3, replies: 2 }], work)).toBe(5 * (5 * 100 + 2 * 10));
    expect(
      leastWork(
        [1, 2].map(() => ({ prompt: 1, replies: 1 })),
        work,
      ),
    ).toBe(2 * 5 * 210);
  });
});

describe("results by kind of machine", () => {
  const dir = mkdtempSync(join(tmpdir(), "reward-results-"));
  afterAll(() => rmSync(dir, { recursive: true, force: true }));
  const setting = { threads: 2, dtype: "bfloat16", batch: 8 } as const;
  const record = (machine: string): RewardRecord => ({
    machine,
    date: "2026-11-16",
    roofline: {
      ...{ simd: "avx512", vector: "avx512", threads: 2 },
      gigaMultiplyAdds: { one: 59.1, all: 118.2 },
      gigabytesRead: { one: 33.6, all: 35.4 },
    },
    load: { before: 0.1, after: 2 },
    seeds: [1],
    ours: [{ threads: 2, trainings: [training(6, 3, 2)] }],
    trl: [{ threads: 2, setting, trainings: [training(8, 48, 26)] }],
    tried: [{ setting: { ...setting, threads: 1 }, cpuSecondsAStep: 6 }],
  });

  it("keeps those of other kinds, and replaces those of its own", () => {
    const file = join(dir, "folder", "reward.json");
    keepRecord(file, "AMD EPYC, avx512", record("first"));
    keepRecord(file, "Intel Xeon, amx", record("other"));
    const records = keepRecord(file, "AMD EPYC, avx512", record("second"));
    expect(Object.entries(records).map(([kind, { machine }]) => [kind, machine])).toEqual([
      ["AMD EPYC, avx512", "second"],
      ["Intel Xeon, amx", "other"],
    ]);
    expect(JSON.parse(readFileSync(file, "utf8"))).toEqual(records);
  });

  it("puts the figure into the README's sentence, which is there", () => {
    const readme = readFileSync(new URL("../README.md", import.meta.url), "utf8");
    expect(cite(readme, record("first"))).toContain("TRL's `GRPOTrainer` needs 16× the CPU seconds");
    expect(() => cite("Nothing about speed.", record("first"))).toThrow("no sentence");
  });

  it("writes a section for each, with its ratios, curves and what the machine could do", () => {
    const task = { target: 0.9, window: 3, temperature: 0.9, maxTokens: 64, ...settings };
    const alone = { ...record("alone"), trl: [], tried: [] };
    const text = page({ "AMD EPYC, avx512": record("first"), "Intel Xeon, amx": alone }, task);
    expect(headline(record("first"))).toContain("TRL needs 16× the CPU seconds, 13× the time by the clock");
    const [, first, second] = text.split("\n## ");
    expect(first).toContain("AMD EPYC, avx512\n\nTRL needs 16×");
    expect(first).toContain("| ours | 2 | 6 (6) | 3.00 (3.00) | 2.00 | 0.50 | 4.00 |");
    expect(first).toContain("| TRL | 2 | 8 (8) | 48.0 (48.0) | 26.0 | 6.00 | 49.0 |");
    expect(first).toContain("| ours | 1 | 12.0 | 0.90 0.90 0.90 0.90 0.90 0.90 |");
    expect(first).toContain("59 / 118 billion f32 multiply-adds a second (avx512), 34 / 35 GB/s");
    expect(second).toContain("Intel Xeon, amx\n\nOurs alone");
    expect(second).not.toContain("| TRL");
  });
});

describe("the peer's task", () => {
  it("has the openers that train() draws and the rewards that it gives, to the bit", async () => {
    const agent = demoAgent({ threads: 1 });
    await agent.initialize();
    const scorer = createReferenceScorer(agent.policy);
    try {
      const groups: TrajectoryGroup[] = [];
      const seed = 5;
      await train({
        ...settings,
        ...{ agent, environment: environment(), reward: reward(), seed, steps: 1, dir: false },
        sampling: { maxTokens: 12 },
        callbacks: { onStepEnd: (event) => void groups.push(...event.groups) },
      });
      const conversations = groups.flatMap(({ trajectories }) => trajectories);
      const said = groups.map(
        ({ trajectories }) => trajectories[0]!.turns.find(({ role }) => role === "user")!.content,
      );
      expect(said).toEqual(openers(seed, 1));
      const replies = conversations.map(({ turns, chains }) => ({
        prompt: [
          { role: "system" as const, content: agent.options.systemPrompt! },
          turns.find(({ role }) => role === "user")!,
        ],
        text: turns.at(-1)!.content,
        tokens: [...chains[0]!.tokens].filter((_, i) => chains[0]!.learn[i] === 1),
      }));
      const given = await rewardsOf(replies, { reward: reward(), scorer, tokenizer: agent.policy.tokenizer });
      expect(given).toEqual(conversations.map((one) => one.reward.score));
      expect(new Set(given).size).toBeGreaterThan(1);
    } finally {
      await scorer.close();
      await agent.close();
    }
  });
});

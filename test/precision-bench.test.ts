import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { arms } from "../benchmarks/precision/learn.ts";
import { overall, type PrecisionRecord, page, summary } from "../benchmarks/precision/report.ts";

const at = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url));
const record = JSON.parse(readFileSync(at("benchmarks/results/precision.json"), "utf8")) as PrecisionRecord;

it("docs/results/precision.md says what benchmarks/results/precision.json holds", () => {
  expect(readFileSync(at("docs/results/precision.md"), "utf8")).toBe(page(record));
});

it("holds every task with f32 and each arm, by seeds that f32 has too", () => {
  expect(summary(record.runs)).toHaveLength(3 * Object.keys(arms).length);
  const seedsOf = (arm: string) =>
    record.runs.filter(({ job }) => job.arm === arm).map(({ job }) => `${job.task} ${job.seed}`);
  for (const arm of Object.keys(arms)) expect(seedsOf("f32")).toEqual(expect.arrayContaining(seedsOf(arm)));
});

it("an arm is compared with f32 by the seeds that both have", () => {
  const run = (arm: "f32" | "moments", seed: number, score: number) => ({
    job: { task: "echo" as const, arm, seed },
    result: { curve: [0.25, 0.5, 0.75, 1], scenarios: Array.from({ length: 8 }, (_, i) => score + i / 100) },
  });
  const runs = [run("f32", 1, 0.5), run("f32", 2, 0.9), run("moments", 1, 0.6)];
  const [f32, moments] = summary(runs);
  expect(f32).toBe("| echo | f32 | 2 | 0.500 | 0.750 | 0.735 | 0.535 0.935 |  |");
  expect(moments).toBe("| echo | moments | 1 | 0.500 | 0.750 | 0.635 | 0.635 | +0.100 |");
  expect(overall(runs)).toEqual([
    expect.stringMatching(/^- \*\*moments\*\*: \+0\.100 .* better in 1, worse in 0 and the same in 0 of 1 pairs/),
  ]);
});

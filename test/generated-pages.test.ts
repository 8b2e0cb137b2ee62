import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import { metricFamilies, metrics } from "../packages/stateset-agents/src/run/metrics.ts";
import { errorsPage } from "../scripts/errors-page.ts";
import { type MetricUses, metricUses } from "../scripts/metric-uses.ts";
import { metricsPage, modules } from "../scripts/metrics-page.ts";
import { trainingOptionsPage } from "../scripts/training-options-page.ts";

const page = (path: string) => readFileSync(fileURLToPath(new URL(`../${path}`, import.meta.url)), "utf8");

it("docs/reference/errors.md lists every error code (npx tsx scripts/errors-page.ts writes it)", () => {
  expect(page("docs/reference/errors.md")).toBe(errorsPage());
});

it("docs/reference/training-options.md lists every training option (npx tsx scripts/training-options-page.ts writes it)", () => {
  expect(page("docs/reference/training-options.md")).toBe(trainingOptionsPage());
});

describe("metrics", () => {
  let uses: MetricUses;
  beforeAll(() => {
    uses = metricUses();
  }, 240_000);

  it("are listed in docs/reference/metrics.md (npx tsx scripts/metrics-page.ts writes it)", () => {
    expect(page("docs/reference/metrics.md")).toBe(metricsPage(uses));
  });

  it("are each written by some module", () => {
    const all = [...Object.keys(metrics), ...Object.keys(metricFamilies)];
    expect(all.filter((name) => modules(uses.writers, name).length === 0)).toEqual([]);
  });

  it("are in the table wherever they are read or written", () => {
    const known = (name: string) => name in metrics || Object.keys(metricFamilies).some((one) => name.startsWith(one));
    expect([...uses.readers.keys(), ...uses.writers.keys()].filter((name) => !known(name))).toEqual([]);
  });

  it("are found where they are known to be used", () => {
    expect(modules(uses.writers, "kl")).toEqual(["algorithm/loss/terms.ts", "learning/regularise.ts"]);
    expect(modules(uses.writers, "report/reward")).toEqual(["run/evaluation-metrics.ts"]);
    expect(modules(uses.readers, "report/reward")).toEqual(["telemetry/console-tracker.ts"]);
    expect(modules(uses.readers, "gradNorm")).toEqual(["cli/commands/runs.ts", "telemetry/view-lines.ts"]);
    expect(modules(uses.readers, "firstRatioMax")).toEqual([
      "benchmarks/harness/learn.ts",
      "docs/guides/harness.md",
      "docs/guides/training.md",
      "learning/learn.ts",
      "training/failures.ts",
    ]);
    expect(modules(uses.readers, "part/")).toContain("benchmarks/proof/measure.ts");
    expect(modules(uses.readers, "rewardMin")).toEqual([]);
  });
});

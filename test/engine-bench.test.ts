import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { cite, type EngineRecord, rowsTable, standing } from "../benchmarks/engine/report.ts";
import { parts, rival, work } from "../benchmarks/engine/shapes.ts";
import { readRecords } from "../benchmarks/results.ts";

const at = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url));

const record: EngineRecord = {
  ...{ machine: "a machine", date: "2026-01-01", work },
  roofline: {
    ...{ simd: "avx512", vector: "avx512", threads: 2 },
    ...{ gigaMultiplyAdds: { one: 59, all: 118 }, gigabytesRead: { one: 35, all: 38 } },
  },
  ratios: { tiny: { decode1: 2, decode16Bf16: 3.25 } },
  measured: {
    tiny: {
      ours: {
        ...{ rows1: 100, rows8: 400, rows16: 500, rows48: 600 },
        ...{ rows1Bf16: 240, rows8Bf16: 720, rows16Bf16: 600, rows48Bf16: 660 },
        ...{ rows1Int8: 550, rows8Int8: 1040, rows16Int8: 650, rows48Int8: 720 },
      },
    },
  },
};

it("benchmarks/engine/README.md shows what is kept (npm run bench:engine -- --save benchmarks/results/engine.json writes it)", () => {
  const readme = readFileSync(at("benchmarks/engine/README.md"), "utf8");
  expect(cite(readme, readRecords<EngineRecord>(at("benchmarks/results/engine.json")))).toBe(readme);
});

it("small weights stand beside f32 at 1, 8, 16 and 48 rows", () => {
  expect(rowsTable(record.measured).split("\n").slice(2)).toEqual([
    "| tiny | 1 | 100 | 240 (2.40) | 550 (5.50) |",
    "| tiny | 8 | 400 | 720 (1.80) | 1040 (2.60) |",
    "| tiny | 16 | 500 | 600 (1.20) | 650 (1.30) |",
    "| tiny | 48 | 600 | 660 (1.10) | 720 (1.20) |",
  ]);
  expect(rowsTable({ tiny: { ours: { decode1: 1 } } })).toBe("");
  expect(parts.rows).toHaveLength(3 * work.rows.length);
  for (const metric of parts.rows) expect(rival(metric, { decode1: 1, decode1Bf16: 2 })).toBeUndefined();
});

it("a machine stands beside what it could do, and what was not measured is a dash", () => {
  const text = standing({ "CPU, avx512": record });
  expect(text).toContain(
    "### CPU, avx512\n\na machine, 2026-01-01. Measured in the same run, one thread / 2: 59 / 118",
  );
  expect(text).toContain("| tiny | 2.0 / – / – | – / – / 3.3 | – / – / – | – |");
});

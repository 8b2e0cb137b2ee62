/** What `npm run bench:engine -- --save` found, as tables of its README. */
import { type Roofline, rooflineText } from "../machine.ts";
import type { MachineRecord, Records } from "../results.ts";
import { type Measurements, type Metric, work } from "./shapes.ts";

export interface EngineRecord extends MachineRecord {
  roofline?: Roofline;
  work: object;
  ratios: Record<string, Measurements>;
  measured: Record<string, { ours: Measurements; peer?: Measurements }>;
}

/** "starter-12m decode16": 5.1 */
export function flatRatios({ ratios }: Pick<EngineRecord, "ratios">): Record<string, number> {
  const named = Object.entries(ratios).flatMap(([shape, of]) =>
    Object.entries(of).map(([metric, ratio]) => [`${shape} ${metric}`, ratio]),
  );
  return Object.fromEntries(named);
}

const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
const table = (head: readonly string[], rows: readonly (readonly string[])[]) =>
  [row(head), row(head.map(() => "---")), ...rows.map(row)].join("\n");

const columns: Record<string, readonly Metric[]> = {
  "decode 1 / 4 / 16": ["decode1", "decode4", "decode16"],
  bf16: ["decode1Bf16", "decode4Bf16", "decode16Bf16"],
  int8: ["decode1Int8", "decode4Int8", "decode16Int8"],
  prefill: ["prefill"],
  "train full": ["trainFull"],
  "train LoRA": ["trainLora"],
  "full, on what was sampled": ["trainFullReused"],
  "LoRA, on what was sampled": ["trainLoraReused"],
  "shared prefix": ["sharedPrefix"],
  "peak memory / bf16 moments": ["peakMemory", "peakMemoryBf16"],
};

const ratio = (value: number | undefined) => (value === undefined ? "–" : value.toFixed(1));

/** Tokens a second of ours at so many rows by form, and how often that is of f32. Nothing where rows were not measured. */
export function rowsTable(measured: EngineRecord["measured"]): string {
  const rows = Object.entries(measured).flatMap(([shape, { ours }]) =>
    work.rows.flatMap((count) => {
      const [f32, bf16, int8] = ["", "Bf16", "Int8"].map((form) => ours[`rows${count}${form}` as Metric]);
      if (!(f32 && bf16 && int8)) return [];
      const beside = (value: number) => `${value.toFixed(0)} (${(value / f32).toFixed(2)})`;
      return [[shape, String(count), f32.toFixed(0), beside(bf16), beside(int8)]];
    }),
  );
  return rows.length === 0 ? "" : table(["", "rows", "f32", "bf16", "int8"], rows);
}

/** One section for each kind of machine. */
export function standing(records: Records<EngineRecord>): string {
  return Object.entries(records)
    .map(([kind, { machine, date, roofline, ratios, measured }]) => {
      const rows = Object.entries(ratios).map(([shape, of]) => [
        shape,
        ...Object.values(columns).map((metrics) => metrics.map((metric) => ratio(of[metric])).join(" / ")),
      ]);
      const small = rowsTable(measured);
      return [
        `### ${kind}`,
        `${machine}, ${date}.${roofline ? ` Measured in the same run, ${rooflineText(roofline)}.` : ""}`,
        table(["ours over PyTorch's", ...Object.keys(columns)], rows),
        ...(small
          ? [`Tokens a second by rows of a step, prompts of one token; in brackets how often that of f32:`, small]
          : []),
      ].join("\n\n");
    })
    .join("\n\n");
}

const part = /(<!-- written by --save -->\n)[\s\S]*(\n<!-- end -->)/;

/** The README with the tables of these records. */
export function cite(readme: string, records: Records<EngineRecord>): string {
  if (!part.test(readme)) throw new Error("The README has no place for the tables; adapt cite().");
  return readme.replace(part, (_, before: string, after: string) => `${before}\n${standing(records)}\n${after}`);
}

/** metrics.jsonl as a table for other programs: numbers as they were written, a row a line. */
import { pathIn } from "../../run/layout.ts";
import { csvCell } from "../api/csv-cell.ts";
import { readOn, stateOf } from "./index/growing-file.ts";
import type { NumberTable } from "./index/number-table.ts";
import { recordIn } from "./index/scan-events.ts";
import { columnOf } from "./series.ts";

export async function csvOf(dir: string, table: NumberTable, metrics: readonly string[] | undefined): Promise<string> {
  const names = metrics?.map((name) => columnOf(table, name).name) ?? table.columns.map(({ name }) => name);
  const lines = [["step", ...names].map(csvCell).join(",")];
  const path = pathIn(dir, "metrics");
  const take = (bytes: Uint8Array, from: number, to: number) => {
    let at = from;
    for (let end = bytes.indexOf(10, at); end >= 0 && end < to; end = bytes.indexOf(10, at)) {
      const record = recordIn(bytes, at, end);
      if (record && typeof record.step === "number")
        lines.push(["step", ...names].map((name) => text(record[name])).join(","));
      at = end + 1;
    }
    return at;
  };
  if (stateOf(path, undefined) !== "gone") await readOn(path, undefined, take, () => lines.length);
  return `${lines.join("\r\n")}\r\n`;
}

const text = (value: unknown) => (typeof value === "number" ? String(value) : "");

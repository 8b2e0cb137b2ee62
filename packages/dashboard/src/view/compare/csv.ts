/** Settings that differ as CSV (RFC 4180), a column a run. */
import { csvCell } from "../../../../stateset-agents/src/dashboard/api/csv-cell.ts";
import type { CompareData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { valueText } from "./value-text.ts";

export function settingsCsv({ runs, settings }: Pick<CompareData, "runs" | "settings">): string {
  const rows = [
    ["setting", ...runs.map(({ key }) => key)],
    ...settings.map(({ path, values }) => [path, ...values.map(cell)]),
  ];
  return rows.map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");
}

const cell = (value: unknown) => (value === null || value === undefined ? "" : valueText(value));

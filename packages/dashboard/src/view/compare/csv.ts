/** Settings that differ as CSV (RFC 4180), a column a run. */
import type { CompareData } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { valueText } from "./value-text.ts";

export function settingsCsv({ runs, settings }: Pick<CompareData, "runs" | "settings">): string {
  const rows = [
    ["setting", ...runs.map(({ key }) => key)],
    ...settings.map(({ path, values }) => [path, ...values.map(cell)]),
  ];
  return rows.map((row) => `${row.map(quoted).join(",")}\r\n`).join("");
}

const cell = (value: unknown) => (value === null || value === undefined ? "" : valueText(value));

/** A name that begins like a formula would be run by a spreadsheet: an apostrophe before it makes it text. Numbers stay numbers. */
function quoted(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text)) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

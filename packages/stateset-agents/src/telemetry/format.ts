/** Numbers and times as people read them. Shared by the live view and the CLI's tables. */
import { type Estimate, fewestUnits } from "../evaluation/estimate.ts";

const bars = "▁▂▃▄▅▆▇█";

/** The last `width` values as a row of bars between their least and greatest. */
export function sparkline(values: readonly number[], width = 24): string {
  const shown = values.filter(Number.isFinite).slice(-width);
  if (shown.length === 0) return "";
  const low = Math.min(...shown);
  const range = Math.max(...shown) - low;
  return shown.map((value) => bars[range === 0 ? 3 : Math.round(((value - low) / range) * (bars.length - 1))]).join("");
}

/** "48s", "3m 05s", "2h 07m". */
export function duration(ms: number): string {
  if (!Number.isFinite(ms)) return "–";
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m ${String(seconds % 60).padStart(2, "0")}s`;
  return `${Math.floor(minutes / 60)}h ${String(minutes % 60).padStart(2, "0")}m`;
}

/** "512 B", "11.4 MiB", "3.2 GiB". */
export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

/** "950", "11.7M". */
export function quantity(count: number): string {
  for (const [size, suffix] of [
    [1e9, "B"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (Math.abs(count) >= size) return `${(count / size).toFixed(1)}${suffix}`;
  }
  return String(Math.round(count));
}

export function percent(share: number): string {
  return share > 0 && share < 0.1 ? `${(share * 100).toFixed(1)}%` : `${Math.round(share * 100)}%`;
}

/** Three decimals, or an exponent where those would show nothing. */
export function number(value: number): string {
  if (Math.abs(value) > 1e-9 && Math.abs(value) < 0.001) return value.toExponential(1);
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en-US") : value.toFixed(3);
}

/** "[0.512, 0.690]", or why there is none. */
export function intervalText({ low, high, count }: Estimate, show = number): string {
  if (low !== undefined) return `[${show(low)}, ${show(high)}]`;
  return count < fewestUnits ? "n too small" : "all alike";
}

/** "0.604 [0.512, 0.690] n=30", "0.604 (n=3 is too small)". */
export function estimateText(estimate: Estimate, show = number): string {
  const { mean, low, count } = estimate;
  if (low !== undefined) return `${show(mean)} ${intervalText(estimate, show)} n=${count}`;
  return `${show(mean)} (n=${count}${count < fewestUnits ? " is too small" : ", all alike"})`;
}

const ansi = new RegExp(`${String.fromCharCode(27)}\\[[0-9;]*m`, "g");

/** How many columns a text takes, colour codes not counted. */
export function width(text: string): number {
  return [...text.replace(ansi, "")].length;
}

export function padEnd(text: string, columns: number): string {
  return text + " ".repeat(Math.max(0, columns - width(text)));
}

/** Cuts to a number of columns; colour codes are kept whole. */
export function clip(text: string, columns: number): string {
  if (width(text) <= columns) return text;
  let shown = 0;
  let result = "";
  for (const part of text.split(new RegExp(`(${ansi.source})`))) {
    if (part.startsWith("\u001b[")) {
      result += part;
      continue;
    }
    for (const character of part) {
      if (shown >= columns - 1) break;
      result += character;
      shown++;
    }
  }
  return `${result}…`;
}

/** Rows under a heading, columns as wide as they need; numbers to the right. */
export function table(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  dim: (text: string) => string = String,
): string[] {
  const widths = head.map((title, i) => Math.max(width(title), ...rows.map((row) => width(row[i] ?? ""))));
  const numeric = head.map(
    (_, i) => rows.length > 0 && rows.every((row) => /^[-+±0-9.–,%eE[\] ]*$/.test((row[i] ?? "").replace(ansi, ""))),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, i) =>
        numeric[i] ? " ".repeat(Math.max(0, widths[i]! - width(cell))) + cell : padEnd(cell, widths[i]!),
      )
      .join("  ")
      .trimEnd();
  return [dim(line(head)), ...rows.map(line)];
}

/** Numbers and times as people read them. Shared by the live view and the CLI's tables. */
import { type Estimate, fewestUnits } from "../evaluation/estimate.ts";

const bars = "▁▂▃▄▅▆▇█";

/** All values as a row of at most `width` bars between their least and greatest; where there are more, a bar is the mean of several. */
export function sparkline(values: readonly number[], width = 24): string {
  const finite = values.filter(Number.isFinite);
  const count = Math.min(width, finite.length);
  const shown = Array.from({ length: count }, (_, i) => {
    const part = finite.slice(Math.floor((i * finite.length) / count), Math.floor(((i + 1) * finite.length) / count));
    return part.reduce((sum, value) => sum + value, 0) / part.length;
  });
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

/** East Asian wide and fullwidth characters, and emoji, which terminals draw two columns wide. */
const wide =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]|\p{Emoji_Presentation}/u;
/** What is drawn over the character before it. */
const joined = /[\p{Mn}\p{Me}\p{Cf}]/u;

function columnsOf(character: string): number {
  const code = character.codePointAt(0)!;
  // Latin letters, and what bars and lines are drawn with: nearly everything.
  if (code < 0x300 || (code >= 0x2500 && code < 0x25a0)) return 1;
  return joined.test(character) ? 0 : wide.test(character) ? 2 : 1;
}

/** How many columns a text takes, colour codes not counted. */
export function width(text: string): number {
  let columns = 0;
  for (const character of text.replace(ansi, "")) columns += columnsOf(character);
  return columns;
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
      const own = columnsOf(character);
      if (shown + own > columns - 1) {
        shown = columns;
        break;
      }
      result += character;
      shown += own;
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

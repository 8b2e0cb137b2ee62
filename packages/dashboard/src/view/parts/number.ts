/** Numbers as people read them. What is not there is a dash; what is no number says so. */
import type { EstimateData } from "../../../../stateset-agents/src/dashboard/api/index.ts";

const missing = "–";
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** Four digits that count, without zeros that say nothing: 0.7134, 12.5, 12,346, 1.2e-5. */
export function number(value: number | null | undefined, digits = 4): string {
  const odd = unusual(value);
  if (odd !== undefined) return odd;
  const x = value as number;
  const size = Math.abs(x);
  if (size >= 1e9 || (size > 0 && size < 1e-4)) return minus(short(x.toExponential(digits - 2)));
  if (Number.isInteger(x) || size >= 10 ** (digits - 1)) return minus(whole.format(x));
  return minus(short(x.toPrecision(digits)));
}

/** For places where there is little room: 950, 12.3k, 4.1M. */
export function compact(value: number | null | undefined): string {
  const odd = unusual(value);
  if (odd !== undefined) return odd;
  const x = value as number;
  const size = Math.abs(x);
  for (const [unit, letter] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ] as const) {
    if (size >= unit) return minus(`${short((x / unit).toPrecision(3))}${letter}`);
  }
  return number(x, 3);
}

/** 0.713 → 71.3% */
export function percent(value: number | null | undefined, digits = 3): string {
  return unusual(value) ?? `${minus(short(((value as number) * 100).toPrecision(digits)))}%`;
}

/** With its sign, for what changed: +0.12, −0.03. */
export function signed(value: number | null | undefined, digits = 4): string {
  return typeof value === "number" && value > 0 ? `+${number(value, digits)}` : number(value, digits);
}

/** Milliseconds in the two largest units: 340 ms, 12.3 s, 3 min 20 s, 2 h 5 min, 3 d 4 h. */
export function duration(ms: number | null | undefined): string {
  const odd = unusual(ms);
  if (odd !== undefined) return odd;
  const x = ms as number;
  if (x < 0) return `−${duration(-x)}`;
  if (x < 1000) return `${Math.round(x)} ms`;
  const seconds = Math.round(x / 1000);
  if (x < 59_950) return `${short((x / 1000).toPrecision(3))} s`;
  if (seconds < 3600) return two(Math.floor(seconds / 60), "min", seconds % 60, "s");
  const minutes = Math.round(seconds / 60);
  if (minutes < 1440) return two(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.round(minutes / 60);
  return two(Math.floor(hours / 24), "d", hours % 24, "h");
}

export function bytes(value: number | null | undefined): string {
  const odd = unusual(value);
  if (odd !== undefined) return odd;
  let x = value as number;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (Math.abs(x) >= 999.5 && unit < units.length - 1) {
    x /= 1000;
    unit++;
  }
  return `${unit === 0 ? x : short(x.toPrecision(3))} ${units[unit]}`;
}

/** 0.71 [0.66, 0.76]: a mean and, where there is one, its 95% interval. */
export function estimate(value: EstimateData | null | undefined): string {
  if (!value) return missing;
  const { mean, low, high } = value;
  return low === undefined || high === undefined
    ? number(mean, 3)
    : `${number(mean, 3)} [${number(low, 3)}, ${number(high, 3)}]`;
}

/** Milliseconds since 1970 → 2026-03-01 14:05, in the reader's own time. */
export function moment(at: number | null | undefined): string {
  const date = new Date(at ?? Number.NaN);
  if (Number.isNaN(date.getTime())) return missing;
  const pad = (x: number) => String(x).padStart(2, "0");
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${pad(date.getHours())}:${pad(date.getMinutes())}`;
}

/** 3 min ago; a clock that jumped is not argued with. */
export function ago(at: number | null | undefined, now = Date.now()): string {
  if (at === null || at === undefined || !Number.isFinite(at)) return missing;
  const ms = now - at;
  if (ms < -60_000) return moment(at);
  if (ms < 10_000) return "just now";
  return `${duration(Math.floor(ms / 1000) * 1000)
    .split(" ")
    .slice(0, 2)
    .join(" ")} ago`;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${number(count)} ${count === 1 ? one : many}`;
}

function unusual(value: number | null | undefined): string | undefined {
  if (value === null || value === undefined) return missing;
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  return undefined;
}

function two(a: number, unitA: string, b: number, unitB: string): string {
  return b === 0 ? `${a} ${unitA}` : `${a} ${unitA} ${b} ${unitB}`;
}

/** 1.500 → 1.5, 2.0e-5 → 2e-5 */
function short(text: string): string {
  const [mantissa = "", exponent] = text.split("e");
  const cut = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
  return exponent === undefined ? cut : `${cut}e${exponent.replace("+", "")}`;
}

const minus = (text: string) => text.replace(/^-/, "−");

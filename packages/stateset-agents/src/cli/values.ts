import { InvalidArgumentError } from "commander";
import { StatesetError } from "../error.ts";

/** Parsers of flag values; commander names the flag when one throws. */

export function wholeNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isInteger(value) || value < 0)
    throw new InvalidArgumentError("It must be a whole number, 0 or more.");
  return value;
}

export function countingNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isInteger(value) || value < 1)
    throw new InvalidArgumentError("It must be a whole number, 1 or more.");
  return value;
}

export function positiveNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value <= 0)
    throw new InvalidArgumentError("It must be a number above 0.");
  return value;
}

export function notNegative(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value) || value < 0)
    throw new InvalidArgumentError("It must be a number, 0 or more.");
  return value;
}

export function flag(text: string): boolean {
  if (["true", "yes", "1", "on"].includes(text.toLowerCase())) return true;
  if (["false", "no", "0", "off"].includes(text.toLowerCase())) return false;
  throw new InvalidArgumentError("It must be true or false.");
}

/** `--set kl.coefficient=0.02`, several times. Values are JSON where they can be, text otherwise. */
export function setting(text: string, before: Record<string, unknown> = {}): Record<string, unknown> {
  const [path, ...rest] = text.split("=");
  if (!path || rest.length === 0)
    throw new InvalidArgumentError("Write it as name=value, for example kl.coefficient=0.02.");
  const value = rest.join("=");
  let parsed: unknown = value;
  try {
    parsed = JSON.parse(value);
  } catch {
    // Not JSON: a word such as "linear".
  }
  return { ...before, [path]: parsed };
}

/** `--lora` alone means the defaults. */
export function rank(text: string): number {
  const value = wholeNumber(text);
  if (value === 0) throw new InvalidArgumentError("A rank is 1 or more.");
  return value;
}

export function finiteNumber(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value)) throw new InvalidArgumentError("It must be a number.");
  return value;
}

/** What may stand on its own or behind its flag, but not as both. */
export function onceOnly<Name extends string>(
  name: Name,
  argument: string | undefined,
  flag: string | undefined,
): { [N in Name]?: string } {
  if (argument === undefined) return {};
  if (flag === undefined) return { [name]: argument } as { [N in Name]?: string };
  throw new StatesetError("INVALID_OPTION", `"${argument}" and --${name} ${flag} both name the ${name}.`, {
    hint: "Give one of them.",
  });
}

const sizes: Readonly<Record<string, number>> = {
  "": 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  KIB: 2 ** 10,
  MIB: 2 ** 20,
  GIB: 2 ** 30,
};

/** `512MiB`, `2GB`, or bytes. */
export function bytes(text: string): number {
  const [, number, unit = ""] = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(text.trim()) ?? [];
  const factor = sizes[unit.toUpperCase()];
  if (number === undefined || factor === undefined) throw new InvalidArgumentError("Write it as 512MiB or 2GiB.");
  return Math.round(Number(number) * factor);
}

const spans: Readonly<Record<string, number>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** `500ms`, `30s`, `2m`; a number alone is seconds. In milliseconds. */
export function duration(text: string): number {
  const [, number, unit = "s"] = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h)?$/.exec(text.trim()) ?? [];
  if (number === undefined || Number(number) === 0) throw new InvalidArgumentError("Write it as 500ms, 30s or 2m.");
  return Number(number) * spans[unit]!;
}

/** What stands behind the ? of an address: strings, each once, checked against a strict schema. */
import type { z } from "zod";
import { checkOptions } from "../options.ts";
import { HttpError } from "./http-error.ts";

export function readQuery(schema: z.ZodType, url: string): Readonly<Record<string, string | undefined>> {
  const given: Record<string, string> = Object.create(null);
  for (const [name, value] of new URL(url).searchParams) {
    if (name in given) throw refused(`The parameter "${name}" is there twice.`, "invalid_value", name);
    given[name] = value;
  }
  const { problem, ...checked } = checkOptions(schema, { ...given });
  if (!problem) return (checked as { value: Record<string, string | undefined> }).value;
  const { path, unknown, text, hint } = problem;
  if (unknown !== undefined) {
    const known = hint === "Valid: ." ? "There are none here." : hint;
    throw refused(`Unknown parameter "${unknown}". ${known}`, "unknown_parameter", unknown);
  }
  const name = path[0] ?? "";
  const what = name in given ? `Invalid value for "${name}": ${text}.` : `The parameter "${name}" is missing.`;
  throw refused(hint === undefined ? what : `${what} ${hint}`, "invalid_value", name);
}

function refused(message: string, code: string, param: string): HttpError {
  return new HttpError(400, message, { code, param });
}

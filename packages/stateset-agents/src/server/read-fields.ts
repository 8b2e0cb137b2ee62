/** Reading the fields of a request: which there are, which are ignored, and what is wrong with them, in the client's words. */
import type { z } from "zod";
import { checkOptions } from "../options.ts";
import { HttpError } from "./http-error.ts";

/**
 * Checks a body against a strict schema. Fields of the API that have no effect here are taken out first and named in `ignored`; null is
 * what clients send for a field they do not set.
 */
export function readFields<T extends z.ZodType>(
  schema: T,
  body: unknown,
  { known = [], ignored, status = 400 }: { known?: readonly string[]; ignored: Set<string>; status?: 400 | 422 },
): z.output<T> {
  if (typeof body !== "object" || body === null || Array.isArray(body)) {
    throw new HttpError(400, "The body of the request must be a JSON object.", { code: "invalid_body" });
  }
  const own: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(body)) {
    if (value === null) continue;
    if (known.includes(name)) ignored.add(name);
    else own[name] = value;
  }
  const checked = check(schema, own);
  if (!checked.problem) return checked.value;
  const { path, unknown, text, hint } = checked.problem;
  if (unknown !== undefined) {
    const param = [...path, unknown].join(".");
    throw new HttpError(status, `Unknown field "${param}". ${hint}`, { code: "unknown_field", param });
  }
  const param = path.join(".") || null;
  const what = `${param === null ? "Invalid request" : `Invalid value for "${param}"`}: ${text}.`;
  throw new HttpError(status, hint === undefined ? what : `${what} ${hint}`, { code: "invalid_value", param });
}

/** Zod compares the `length` of whatever has one; where that is an object without a value, comparing throws. */
function check<T extends z.ZodType>(schema: T, value: unknown): ReturnType<typeof checkOptions<T>> {
  try {
    return checkOptions(schema, value);
  } catch (cause) {
    throw new HttpError(400, "A field of the request is not of the type it should be.", {
      code: "invalid_value",
      cause,
    });
  }
}

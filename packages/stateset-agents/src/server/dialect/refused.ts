import { HttpError } from "../http-error.ts";

/** A field whose value cannot be followed. `what` completes the sentence that begins with its name. */
export function refused(param: string, what: string): HttpError {
  return new HttpError(400, `"${param}" ${what}`, { code: "invalid_value", param });
}

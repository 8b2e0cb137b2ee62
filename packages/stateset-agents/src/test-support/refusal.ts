import type { HttpError } from "../server/http-error.ts";

/** What something is refused with. */
export function refusal(act: () => unknown): HttpError {
  try {
    act();
  } catch (error) {
    return error as HttpError;
  }
  throw new Error("it was let in");
}

import type { Policy } from "../../policy/policy.ts";
import { HttpError } from "../http-error.ts";

/** A token has three or four characters; where they are this long on the average, it is no text that a model reads. */
const charactersPerToken = 16;

/** So many are read however short the context is: an agent's context window may make them fit. What it takes is in docs/guides/serve.md. */
const always = 1 << 16;

/**
 * Refuses text that no context holds before tokens are made of it: that is done in one go, while everybody waits, and takes seconds
 * where there are megabytes.
 */
export function requireShort(text: unknown, { model: { contextLength } }: Policy, param: string): void {
  const most = Math.max(always, contextLength * charactersPerToken);
  const { length } = typeof text === "string" ? text : JSON.stringify(text);
  if (length <= most) return;
  const what = `"${param}" has ${length} characters, of which ${most} would be read`;
  throw new HttpError(400, `The context of this model is ${contextLength} tokens, and ${what} at most.`, {
    ...{ code: "context_length_exceeded", param },
  });
}

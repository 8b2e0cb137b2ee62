/** Where a page goes on. A cursor belongs to the query it was given for: with another it is refused. */
import { createHash } from "node:crypto";
import { HttpError } from "../../server/http-error.ts";
import type { Query } from "./reader.ts";

export function encodeCursor(query: Query, place: readonly number[]): string {
  return Buffer.from(JSON.stringify([stamp(query), ...place])).toString("base64url");
}

/** `parts` numbers, as they were encoded; undefined where there is no cursor. */
export function decodeCursor(query: Query, parts: number): number[] | undefined {
  if (query.cursor === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(Buffer.from(query.cursor, "base64url").toString());
    if (Array.isArray(value) && value.length === parts + 1 && value[0] === stamp(query)) {
      const place = value.slice(1) as unknown[];
      if (place.every((one) => Number.isSafeInteger(one) && (one as number) >= 0)) return place as number[];
    }
  } catch {
    // Said below.
  }
  throw new HttpError(400, "This cursor is not one of this list.", { param: "cursor", code: "cursor_invalid" });
}

function stamp({ cursor: _, ...query }: Query): string {
  const asked = Object.entries(query).filter(([, value]) => value !== undefined);
  return createHash("sha256").update(JSON.stringify(asked.sort())).digest("base64url").slice(0, 8);
}

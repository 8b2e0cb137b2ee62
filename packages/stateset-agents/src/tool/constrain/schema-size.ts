/** How much a stranger's schema is, found out without reading more of it than is allowed. */
import { StatesetError } from "../../error.ts";

export interface SizeLimits {
  /** Characters of all schemas of a request together, about as JSON has them. */
  maxSchemaBytes: number;
  /** How deep they are nested. */
  maxSchemaDepth: number;
}

/** Also refuses what holds itself, which is nested without end. */
export function requireSize(value: unknown, { maxSchemaBytes, maxSchemaDepth }: SizeLimits): void {
  let size = 0;
  const open: { part: unknown; depth: number }[] = [{ part: value, depth: 0 }];
  while (open.length > 0) {
    const { part, depth } = open.pop()!;
    const isObject = typeof part === "object" && part !== null;
    const keys = isObject && !Array.isArray(part) ? Object.keys(part) : [];
    const inner = isObject ? Object.values(part) : [];
    // Quotes, a colon and a comma each.
    size += typeof part === "string" ? part.length + 2 : 2 + inner.length;
    size += keys.reduce((sum, key) => sum + key.length + 3, 0);
    if (size > maxSchemaBytes) throw tooMuch(`larger than ${maxSchemaBytes} bytes (maxSchemaBytes)`);
    if (depth > maxSchemaDepth) throw tooMuch(`nested more than ${maxSchemaDepth} deep (maxSchemaDepth)`);
    for (const one of inner) open.push({ part: one, depth: depth + 1 });
  }
}

function tooMuch(what: string): StatesetError {
  return new StatesetError("INVALID_OPTION", `The schemas of tools and answer are ${what}.`, {
    hint: "Make them smaller, or give fewer tools at a time.",
  });
}

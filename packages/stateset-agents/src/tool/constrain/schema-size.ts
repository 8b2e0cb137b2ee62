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
  const add = (more: number) => {
    size += more;
    if (size > maxSchemaBytes) throw tooMuch(`larger than ${maxSchemaBytes} bytes (maxSchemaBytes)`);
  };
  const open: { part: unknown; depth: number }[] = [{ part: value, depth: 0 }];
  while (open.length > 0) {
    const { part, depth } = open.pop()!;
    add(typeof part === "string" ? part.length + 2 : 2);
    if (depth > maxSchemaDepth) throw tooMuch(`nested more than ${maxSchemaDepth} deep (maxSchemaDepth)`);
    if (typeof part !== "object" || part === null) continue;
    const keys = Array.isArray(part) ? part : Object.keys(part);
    // Commas, and of keys their quotes and colons: before anything is taken out.
    add(keys.length);
    if (keys === part) for (const one of part as unknown[]) open.push({ part: one, depth: depth + 1 });
    else {
      for (const key of keys as string[]) {
        add(key.length + 3);
        open.push({ part: Reflect.get(part, key), depth: depth + 1 });
      }
    }
  }
}

function tooMuch(what: string): StatesetError {
  return new StatesetError("INVALID_OPTION", `The schemas of tools and answer are ${what}.`, {
    hint: "Make them smaller, or give fewer tools at a time.",
  });
}

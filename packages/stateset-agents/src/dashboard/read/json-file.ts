/** Small JSON files that others write: read again when they changed, and never in anybody's way. */
import { messageOf } from "../../error.ts";
import { isShallow } from "../../nesting.ts";
import { readPlainText } from "../../plain-file.ts";
import { fileStamp } from "./file-stamp.ts";

export type JsonObject = Readonly<Record<string, unknown>>;

export interface JsonFile {
  /** Undefined where there is none, or none that can be read: `problem` then says why. */
  value: JsonObject | undefined;
  problem: string | undefined;
}

export class JsonFiles {
  readonly #known = new Map<string, JsonFile & { stamp: string }>();

  read(path: string): JsonFile {
    const stamp = fileStamp(path);
    if (stamp === undefined) {
      this.#known.delete(path);
      return { value: undefined, problem: undefined };
    }
    const known = this.#known.get(path);
    if (known?.stamp === stamp) return known;
    const read = { ...readJson(path), stamp };
    this.#known.set(path, read);
    return read;
  }
}

function readJson(path: string): JsonFile {
  try {
    const value: unknown = JSON.parse(readPlainText(path));
    if (!isShallow(value)) return { value: undefined, problem: "is nested too deep to be read" };
    if (isObject(value)) return { value, problem: undefined };
    return { value: undefined, problem: "is no JSON object" };
  } catch (error) {
    return { value: undefined, problem: `cannot be read: ${messageOf(error)}` };
  }
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What lies at a dotted place, where each step is an object. */
export function at(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>(
    (inner, key) => (isObject(inner) && Object.hasOwn(inner, key) ? inner[key] : undefined),
    value,
  );
}

export const stringAt = (value: unknown, ...path: readonly string[]) => {
  const found = at(value, ...path);
  return typeof found === "string" ? found : null;
};

export const numberAt = (value: unknown, ...path: readonly string[]) => {
  const found = at(value, ...path);
  return typeof found === "number" && Number.isFinite(found) ? found : null;
};

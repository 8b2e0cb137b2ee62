import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { StatesetError } from "../../error.ts";

export type JsonObject = Readonly<Record<string, unknown>>;

/** Files of a model folder by name: JSON objects, and texts. */
export type FileContents = Readonly<Record<string, JsonObject | string>>;

/** A folder, or files that are in memory because another file holds what they would say; errors call them `where`. */
export type ModelFiles = string | { readonly where: string; readonly files: FileContents };

export function whereOf(source: ModelFiles): string {
  return typeof source === "string" ? source : source.where;
}

/** A file's text, or undefined when there is no such file. */
export async function readText(source: ModelFiles, name: string): Promise<string | undefined> {
  if (typeof source !== "string") {
    const content = source.files[name];
    return typeof content === "object" ? JSON.stringify(content) : content;
  }
  const path = join(source, name);
  let bytes: Buffer;
  try {
    bytes = await readFile(path);
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new StatesetError("TOKENIZER_INVALID", `${path} cannot be read.`, { cause });
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new StatesetError("TOKENIZER_INVALID", `${path} is not valid UTF-8.`, {
      hint: "The file is damaged; download the model again.",
      cause,
    });
  }
}

/** A JSON object from a model folder, or undefined when there is no such file. */
export async function readJsonObject(source: ModelFiles, name: string): Promise<JsonObject | undefined> {
  const ready = typeof source === "string" ? undefined : source.files[name];
  if (typeof ready === "object") return ready;
  const text = await readText(source, name);
  if (text === undefined) return undefined;
  const fail = (what: string, cause?: unknown) =>
    new StatesetError("TOKENIZER_INVALID", `${join(whereOf(source), name)} is not ${what}.`, {
      hint: "The file is damaged; download the model again.",
      cause,
    });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw fail("JSON", cause);
  }
  if (!isObject(value)) throw fail("a JSON object");
  return value;
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { StatesetError } from "../../error.ts";

export type JsonObject = Readonly<Record<string, unknown>>;

/** A file's text, or undefined when there is no such file. */
export async function readText(dir: string, name: string): Promise<string | undefined> {
  const path = join(dir, name);
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
export async function readJsonObject(dir: string, name: string): Promise<JsonObject | undefined> {
  const text = await readText(dir, name);
  if (text === undefined) return undefined;
  const fail = (what: string, cause?: unknown) =>
    new StatesetError("TOKENIZER_INVALID", `${join(dir, name)} is not ${what}.`, {
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

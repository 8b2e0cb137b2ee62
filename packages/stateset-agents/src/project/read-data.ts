import { readFileSync } from "node:fs";
import { extname } from "node:path";
import { LineCounter, parseDocument } from "yaml";
import { type ReadOptions, readEntries } from "../conversation/read-entries.ts";
import { messageOf, StatesetError } from "../error.ts";

export const dataExtensions = [".yaml", ".yml", ".json"];

/** What a YAML or JSON file holds. JSON is YAML, so one parser names the line for both. */
export function readData(file: string): unknown {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new StatesetError("INVALID_DATA", `Could not read ${file}: ${messageOf(error)}.`, { cause: error });
  }
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const problem = document.errors[0];
  if (problem) {
    const { line } = lines.linePos(problem.pos[0]);
    throw new StatesetError("INVALID_DATA", `${file}, line ${line}: ${problem.message}`, { cause: problem });
  }
  return document.toJS();
}

/** The list in a file: one entry a line of JSONL, or a list in YAML or JSON (or an object whose `key` is one). */
export async function readList(file: string, key: string, options: ReadOptions = {}): Promise<unknown[]> {
  if (!dataExtensions.includes(extname(file).toLowerCase())) {
    const entries: unknown[] = [];
    for await (const value of readEntries(file, (one) => one, options, "a list")) entries.push(value);
    return entries;
  }
  const data = readData(file);
  const list = Array.isArray(data) ? data : (data as Record<string, unknown> | null)?.[key];
  if (Array.isArray(list)) return list;
  throw new StatesetError("INVALID_DATA", `${file} holds no list of ${key}.`, {
    hint: `Write a list, or an object with a list named \`${key}\`.`,
  });
}

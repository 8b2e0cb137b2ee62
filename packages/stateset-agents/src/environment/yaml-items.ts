import { readFile } from "node:fs/promises";
import { type Document, isMap, isSeq, LineCounter, parseDocument } from "yaml";
import { unreadable } from "../conversation/read-lines.ts";
import { StatesetError } from "../error.ts";

export interface YamlItem {
  line: number;
  value: unknown;
}

/** Parsed at a time: what a parser builds of a whole file takes thirty times its size. */
const itemsPerPart = 500;

/**
 * The items of the list in a YAML file (the file's own list, or the one it has under `key`), with the lines they begin on. Part by part
 * where the text can be cut before an item; where a part does not stand by itself (an alias, a mistake) the file is read as a whole.
 */
export async function* readYamlItems(path: string, key: string): AsyncGenerator<YamlItem> {
  const text = await readWhole(path);
  let done = 0;
  for (const { text: part, line } of partsOf(text, key)) {
    const items = part === undefined ? undefined : itemsOfPart(part, line);
    if (!items) {
      yield* itemsOfFile(text, path, key).slice(done);
      return;
    }
    done += items.length;
    yield* items;
  }
}

export async function readWhole(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw unreadable(path, error);
  }
}

/** The list cut before every so manyth item. No text where it cannot be cut. */
function* partsOf(text: string, key: string): Generator<{ text: string | undefined; line: number }> {
  const around = new RegExp(
    `^(?:(?:---)?[ \\t]*(?:#.*)?\\r?\\n)*(?:${key}:[ \\t]*(?:#.*)?\\r?\\n(?:[ \\t]*(?:#.*)?\\r?\\n)*)?`,
  );
  const head = around.exec(text)![0].length;
  const indent = /^( *)-[ \t\r\n]/.exec(text.slice(head, head + 200))?.[1];
  if (indent === undefined) {
    yield { text: undefined, line: 1 };
    return;
  }
  let line = 1 + linesIn(text.slice(0, head));
  let from = head;
  let items = 0;
  for (const { index } of text.matchAll(new RegExp(`^${indent}-(?=[ \\t\\r\\n])`, "gm"))) {
    if (items++ % itemsPerPart !== 0 || index === head) continue;
    yield { text: text.slice(from, index), line };
    line += linesIn(text.slice(from, index));
    from = index;
  }
  yield { text: text.slice(from), line };
}

/** Undefined where the part is no list of its own. */
function itemsOfPart(text: string, line: number): YamlItem[] | undefined {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  if (document.errors.length > 0 || !isSeq(document.contents)) return undefined;
  try {
    return itemsIn(document.contents, document, lines, line);
  } catch {
    // An alias of something before.
    return undefined;
  }
}

/** A whole file; `path` names it in errors. */
export function parseYaml(text: string, path: string): { document: Document.Parsed; lines: LineCounter } {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const problem = document.errors[0];
  if (problem) {
    const { line } = lines.linePos(problem.pos[0]);
    throw new StatesetError("INVALID_DATA", `${path}, line ${line}: ${problem.message}.`, { cause: problem });
  }
  return { document, lines };
}

function itemsOfFile(text: string, path: string, key: string): YamlItem[] {
  const { document, lines } = parseYaml(text, path);
  const list = isMap(document.contents) ? document.contents.get(key, true) : document.contents;
  if (!isSeq(list)) {
    throw new StatesetError("INVALID_DATA", `${path}, line 1: expected a list of ${key}.`, {
      hint: `Write a list, or an object with a list named \`${key}\`.`,
    });
  }
  return itemsIn(list, document, lines, 1);
}

function itemsIn(list: { items: unknown[] }, document: unknown, lines: LineCounter, first: number): YamlItem[] {
  return list.items.map((item) => {
    const node = item as { range?: [number, number, number]; toJS(doc: unknown): unknown };
    return { line: first - 1 + lines.linePos(node.range?.[0] ?? 0).line, value: node.toJS(document) };
  });
}

function linesIn(text: string): number {
  return text.split("\n").length - 1;
}

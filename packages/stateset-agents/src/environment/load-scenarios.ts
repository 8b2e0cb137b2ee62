import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { isMap, isSeq, LineCounter, parseDocument } from "yaml";
import { EntryReader, parseJson, type ReadOptions } from "../conversation/read-entries.ts";
import { readLines, type TextEntry } from "../conversation/read-lines.ts";
import { messageOf, StatesetError } from "../error.ts";
import { readJsonItems } from "./json-items.ts";
import { parseScenario, requireNewId } from "./parse-scenario.ts";
import type { ConversationScenario } from "./scenario.ts";

/**
 * Scenarios from a file: JSONL with one a line, or JSON or YAML with a list (or an object whose `scenarios` is one).
 * Errors name the file and the line. JSONL and JSON are read piece by piece; YAML as a whole, which takes long for many thousands.
 */
export async function loadScenarios(path: string, options: ReadOptions = {}): Promise<ConversationScenario[]> {
  const reader = new EntryReader(path, options, "loadScenarios()");
  const scenarios: ConversationScenario[] = [];
  const lines = new Map<string, number>();
  const where = (line: number) => `${path}, line ${line}`;
  let count = 0;
  for await (const entry of entriesOf(path)) {
    const number = ++count;
    const scenario = reader.take(() => {
      const value = "text" in entry ? parseJson(entry.text, where(entry.line)) : entry.value;
      const parsed = parseScenario(value, `${where(entry.line)}: scenario ${number}`, `scenario-${number}`);
      requireNewId(parsed.id, lines, entry.line, where);
      return parsed;
    });
    if (scenario) scenarios.push(scenario);
  }
  reader.end();
  if (scenarios.length === 0) {
    throw new StatesetError("INVALID_SCENARIO", `${path} holds no scenarios.`, {
      hint: 'Add at least one, such as {"id": "refund", "userResponses": ["My order is late."]}.',
    });
  }
  return scenarios;
}

type Entry = TextEntry | { line: number; value: unknown };

function entriesOf(path: string): AsyncIterable<Entry> {
  switch (extname(path).toLowerCase()) {
    case ".jsonl":
      return readLines(path);
    case ".json":
      return readJsonItems(path, "scenarios");
    case ".yaml":
    case ".yml":
      return readYamlItems(path);
    default:
      throw new StatesetError("INVALID_DATA", `${path} is not a scenario file.`, {
        hint: "Use a .jsonl, .json, .yaml or .yml file.",
      });
  }
}

async function* readYamlItems(path: string): AsyncGenerator<Entry> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    throw new StatesetError("INVALID_DATA", `Could not read ${path}: ${messageOf(error)}.`, { cause: error });
  }
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const problem = document.errors[0];
  if (problem) {
    const { line } = lines.linePos(problem.pos[0]);
    throw new StatesetError("INVALID_DATA", `${path}, line ${line}: ${problem.message}.`, { cause: problem });
  }
  const list = isMap(document.contents) ? document.contents.get("scenarios", true) : document.contents;
  if (!isSeq(list)) {
    throw new StatesetError("INVALID_DATA", `${path}, line 1: expected a list of scenarios.`, {
      hint: "Write a list, or an object with a list named `scenarios`.",
    });
  }
  for (const item of list.items) {
    const node = item as { range?: [number, number, number]; toJS(doc: unknown): unknown };
    yield { line: lines.linePos(node.range?.[0] ?? 0).line, value: node.toJS(document) };
  }
}

import { extname } from "node:path";
import { EntryReader, parseJson, type ReadOptions } from "../conversation/read-entries.ts";
import { readLines, type TextEntry } from "../conversation/read-lines.ts";
import { StatesetError } from "../error.ts";
import { readJsonItems } from "./json-items.ts";
import { parseScenario, requireNewId } from "./parse-scenario.ts";
import type { ConversationScenario } from "./scenario.ts";
import { readYamlItems, type YamlItem } from "./yaml-items.ts";

/**
 * Scenarios from a file: JSONL with one a line, or JSON or YAML with a list (or an object whose `scenarios` is one).
 * Errors name the file and the line. Read piece by piece: no more is kept than the scenarios.
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

type Entry = TextEntry | YamlItem;

function entriesOf(path: string): AsyncIterable<Entry> {
  switch (extname(path).toLowerCase()) {
    case ".jsonl":
      return readLines(path);
    case ".json":
      return readJsonItems(path, "scenarios");
    case ".yaml":
    case ".yml":
      return readYamlItems(path, "scenarios");
    default:
      throw new StatesetError("INVALID_DATA", `${path} is not a scenario file.`, {
        hint: "Use a .jsonl, .json, .yaml or .yml file.",
      });
  }
}

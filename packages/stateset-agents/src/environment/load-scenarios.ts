import { extname } from "node:path";
import { EntryReader, parseJson, type ReadOptions } from "../conversation/read-entries.ts";
import { readLines, type TextEntry } from "../conversation/read-lines.ts";
import { StatesetError } from "../error.ts";
import { readJsonItems } from "./json-items.ts";
import { parseScenario, requireNewId } from "./parse-scenario.ts";
import type { ConversationScenario } from "./scenario.ts";
import { parseTask, type Task } from "./task-environment.ts";
import { readYamlItems, type YamlItem } from "./yaml-items.ts";

/**
 * Scenarios from a file: JSONL with one a line, or JSON or YAML with a list (or an object whose `scenarios` is one).
 * Errors name the file and the line. Read piece by piece: no more is kept than the scenarios.
 */
export function loadScenarios(path: string, options: ReadOptions = {}): Promise<ConversationScenario[]> {
  return load(path, options, {
    kind: "scenario",
    parse: (value, where, number) => parseScenario(value, where, `scenario-${number}`),
    example: '{"id": "refund", "userResponses": ["My order is late."]}',
  });
}

/** Tasks from a file in the same way; an object has them under `tasks`. */
export function loadTasks(path: string, options: ReadOptions = {}): Promise<Task[]> {
  return load(path, options, { kind: "task", parse: parseTask, example: '{"id": "sum", "goal": "What is 2 + 2?"}' });
}

interface Kind<T> {
  kind: "scenario" | "task";
  parse(value: unknown, where: string, number: number): T;
  example: string;
}

async function load<T extends { id: string }>(
  path: string,
  options: ReadOptions,
  { kind, parse, example }: Kind<T>,
): Promise<T[]> {
  const reader = new EntryReader(path, options, kind === "task" ? "loadTasks()" : "loadScenarios()");
  const found: T[] = [];
  const lines = new Map<string, number>();
  const where = (line: number) => `${path}, line ${line}`;
  let count = 0;
  for await (const entry of entriesOf(path, kind)) {
    const number = ++count;
    const one = reader.take(() => {
      const value = "text" in entry ? parseJson(entry.text, where(entry.line)) : entry.value;
      const parsed = parse(value, `${where(entry.line)}: ${kind} ${number}`, number);
      requireNewId(parsed.id, lines, entry.line, where);
      return parsed;
    });
    if (one) found.push(one);
  }
  reader.end();
  if (found.length === 0) {
    throw new StatesetError("INVALID_SCENARIO", `${path} holds no ${kind}s.`, {
      hint: `Add at least one, such as ${example}.`,
    });
  }
  return found;
}

type Entry = TextEntry | YamlItem;

function entriesOf(path: string, kind: string): AsyncIterable<Entry> {
  switch (extname(path).toLowerCase()) {
    case ".jsonl":
      return readLines(path);
    case ".json":
      return readJsonItems(path, `${kind}s`);
    case ".yaml":
    case ".yml":
      return readYamlItems(path, `${kind}s`);
    default:
      throw new StatesetError("INVALID_DATA", `${path} is not a ${kind} file.`, {
        hint: "Use a .jsonl, .json, .yaml or .yml file.",
      });
  }
}

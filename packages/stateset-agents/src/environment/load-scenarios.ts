import { readFile } from "node:fs/promises";
import { extname } from "node:path";
import { isMap, isSeq, LineCounter, parseDocument } from "yaml";
import { readJsonl } from "../conversation/jsonl.ts";
import { messageOf, StatesetError } from "../error.ts";
import { parseScenario, requireDistinctIds } from "./parse-scenario.ts";
import type { ConversationScenario } from "./scenario.ts";

/**
 * Scenarios from a file: JSONL with one a line, or JSON or YAML with a list (or an object whose `scenarios` is one).
 * Errors name the file and the line.
 */
export async function loadScenarios(path: string): Promise<ConversationScenario[]> {
  const extension = extname(path).toLowerCase();
  if (![".jsonl", ".json", ".yaml", ".yml"].includes(extension)) {
    throw new StatesetError("INVALID_DATA", `${path} is not a scenario file.`, {
      hint: "Use a .jsonl, .json, .yaml or .yml file.",
    });
  }
  const entries = extension === ".jsonl" ? await fromLines(path) : await fromDocument(path);
  if (entries.length === 0) {
    throw new StatesetError("INVALID_SCENARIO", `${path} holds no scenarios.`, {
      hint: 'Add at least one, such as {"id": "refund", "userResponses": ["My order is late."]}.',
    });
  }
  const where = (i: number) => `${path}, line ${entries[i]!.line}: scenario ${i + 1}`;
  const scenarios = entries.map(({ value }, i) => parseScenario(value, where(i), `scenario-${i + 1}`));
  requireDistinctIds(scenarios, where);
  return scenarios;
}

interface Entry {
  line: number;
  value: unknown;
}

async function fromLines(path: string): Promise<Entry[]> {
  const entries: Entry[] = [];
  for await (const entry of readJsonl(path)) entries.push(entry);
  return entries;
}

/** JSON is YAML, so one parser gives the line of every item for both. */
async function fromDocument(path: string): Promise<Entry[]> {
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
  return list.items.map((item) => {
    const node = item as { range?: [number, number, number]; toJS(doc: unknown): unknown };
    return { line: lines.linePos(node.range?.[0] ?? 0).line, value: node.toJS(document) };
  });
}

/**
 * The files of recorded conversations, line by line: where each line lies and what lists say of it. Made when a step is asked for; a file
 * that was written anew, as a resumed run does, is read anew.
 */
import { closeSync, existsSync, readSync } from "node:fs";
import { relative } from "node:path";
import { parseRecord } from "../../../conversation/parse-record.ts";
import type { ConversationRecord } from "../../../conversation/record.ts";
import { messageOf } from "../../../error.ts";
import { isShallow } from "../../../nesting.ts";
import { openPlain, readPlain } from "../../../plain-file.ts";
import { Recent } from "../../../recent.ts";
import { evaluatedSteps, evaluationFile } from "../../../run/evaluation-conversations.ts";
import { trajectoryFiles, trajectorySteps } from "../../../run/trajectories.ts";
import type { ProblemData } from "../../api/index.ts";
import { fileStamp } from "../file-stamp.ts";
import type { StepSet } from "../keys.ts";
import { type RowFacts, rowFacts } from "./row-facts.ts";

export interface RecordLine {
  offset: number;
  length: number;
  /** Undefined where it cannot be read; the problems of the file say so. */
  row: RowFacts | undefined;
}

export interface StepFile {
  path: string;
  /** One a line of the file, empty ones too. */
  lines: RecordLine[];
  problems: ProblemData[];
}

const mostFiles = 2000;

export class StepFiles {
  readonly #files = new Recent<StepFile & { stamp: string }>(mostFiles);

  steps(dir: string, set: StepSet): number[] {
    return set === "training" ? trajectorySteps(dir) : evaluatedSteps(dir);
  }

  /** Undefined where the step has no file (any more). */
  file(dir: string, set: StepSet, step: number): StepFile | undefined {
    const path = set === "training" ? trajectoryFiles(dir, step).jsonl : evaluationFile(dir, step);
    const stamp = fileStamp(path);
    if (stamp === undefined) return undefined;
    const known = this.#files.get(path);
    if (known?.stamp === stamp) return known;
    const name = relative(dir, path);
    try {
      const hasTokens = set === "training" && existsSync(trajectoryFiles(dir, step).bin);
      return this.#files.set(path, { ...indexFile(path, name, hasTokens), stamp });
    } catch (error) {
      const problem = { where: name, message: `cannot be read: ${messageOf(error)}` };
      return { path, lines: [], problems: [problem] };
    }
  }

  /** One line, whole; throws INVALID_DATA that says where where it is no record. */
  record(file: StepFile, line: number): ConversationRecord {
    const { offset, length } = file.lines[line]!;
    const bytes = Buffer.alloc(length);
    const handle = openPlain(file.path);
    try {
      return parseLine(bytes.toString("utf8", 0, readSync(handle, bytes, 0, length, offset)), file.path, line);
    } finally {
      closeSync(handle);
    }
  }
}

function indexFile(path: string, name: string, hasTokens: boolean): StepFile {
  const bytes = readPlain(path);
  const lines: RecordLine[] = [];
  const problems: ProblemData[] = [];
  for (let at = 0; at < bytes.length; ) {
    const found = bytes.indexOf(10, at);
    const end = found < 0 ? bytes.length : found;
    let row: RowFacts | undefined;
    try {
      const record = end > at ? parseLine(bytes.toString("utf8", at, end), name, lines.length) : undefined;
      if (record) row = rowFacts(record, hasTokens);
      if (record?.notWritten) problems.push({ where: name, message: notWritten(record.notWritten) });
    } catch (error) {
      problems.push({ where: `${name}, line ${lines.length + 1}`, message: messageOf(error) });
    }
    lines.push({ offset: at, length: end - at, row });
    at = end + 1;
  }
  return { path, lines, problems };
}

function notWritten(counts: NonNullable<ConversationRecord["notWritten"]>): string {
  const said = Object.entries(counts).flatMap(([what, count]) => (count > 0 ? [`${count} ${what}`] : []));
  return `has not all conversations, since they were too many: ${said.join(", ")} are missing`;
}

function parseLine(text: string, where: string, line: number): ConversationRecord {
  const place = `${where}, line ${line + 1}`;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error("is no JSON: half of it may be missing");
  }
  if (!isShallow(value)) throw new Error("is nested too deep to be read");
  return parseRecord(value, place, String(line + 1));
}

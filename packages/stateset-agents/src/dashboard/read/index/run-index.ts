/** What is kept of a run: metrics.jsonl and timing.jsonl by column, the marks of events.jsonl, and what lists say of them. */
import { createHash } from "node:crypto";
import { realpathSync } from "node:fs";
import { pathIn, type RunFile, runFiles } from "../../../run/layout.ts";
import type { EventsData, ProblemData } from "../../api/index.ts";
import { type FileMark, type FileState, readOn, stateOf } from "./growing-file.ts";
import { addEvaluation, type HeldOutEnds } from "./held-out.ts";
import { NumberTable } from "./number-table.ts";
import { eventOf, type RunEvent, recordIn, scanEvents } from "./scan-events.ts";
import { LineScanner } from "./scan-lines.ts";
import { indexPath, readHead, readWhole, removeIndex, writeIndex } from "./store.ts";
import { type IndexSummary, summaryOf } from "./summary.ts";

const tableFiles = ["metrics", "timing"] as const satisfies readonly RunFile[];
type TableFile = (typeof tableFiles)[number];
const files = [...tableFiles, "events"] as const;
type IndexedFile = (typeof files)[number];

/** What stands in the head of an index on the disk. */
interface Facts {
  dir: string;
  marks: Partial<Record<IndexedFile, FileMark>>;
  problems: Record<IndexedFile, ProblemData[]>;
  summary: IndexSummary;
  heldOut: HeldOutEnds;
}

export interface RunTables extends Record<TableFile, NumberTable> {
  /** All but steps, updates and rollouts, which the numbers tell of. */
  events: readonly RunEvent[];
}

/** More are counted but not told. */
const mostProblems = 20;
/** An index that is behind by less is not written again: what is missing is read anew in no time. */
const worthWriting = 1 << 18;
/** About what an event takes in memory. */
const eventBytes = 1000;

export class RunIndex {
  readonly #dir: string;
  readonly #path: string;
  #facts: Facts;
  #tables: RunTables | undefined;
  readonly #scanners: Partial<Record<TableFile, LineScanner>> = {};
  /** Bytes that the index on the disk does not know of. */
  #unwritten = 0;
  #busy: Promise<unknown> = Promise.resolve();
  /** Who reads on: what they fill must not be let go of, nor written while its marks are behind. */
  #reading = 0;
  /** Counts how often the run was found to be another than it was: cut back, or replaced. */
  generation = 0;
  /** The last step that was still the same then. */
  cutTo = 0;

  constructor(dir: string, cacheDir: string) {
    this.#dir = dir;
    const name = createHash("sha256").update(realPath(dir)).digest("hex").slice(0, 32);
    this.#path = indexPath(cacheDir, name);
    const kept = readHead<Facts>(this.#path);
    this.#facts = kept?.dir === realPath(dir) ? kept : nothing(realPath(dir));
  }

  /** As of now. One at a time: who asks meanwhile waits for the same. */
  async summary(): Promise<IndexSummary> {
    await this.#refresh(false);
    return this.#facts.summary;
  }

  async heldOut(): Promise<HeldOutEnds> {
    await this.#refresh(false);
    return this.#facts.heldOut;
  }

  async tables(): Promise<RunTables> {
    return (await this.#refresh(true))!;
  }

  async events(): Promise<EventsData> {
    const { events } = await this.tables();
    return { events: [...events], problems: this.#facts.problems.events };
  }

  problems(): ProblemData[] {
    return files.flatMap((file) => this.#facts.problems[file]);
  }

  /** Bytes in memory, about. */
  get weight(): number {
    if (!this.#tables) return 0;
    const { metrics, timing, events } = this.#tables;
    const bytes = ({ steps, columns }: NumberTable) => steps.length * 4.2 * columns.length;
    return bytes(metrics) + bytes(timing) + events.length * eventBytes;
  }

  /** Lets go of what can be read again. */
  release(): void {
    if (this.#reading > 0) return;
    this.write(1);
    this.#tables = undefined;
    for (const file of tableFiles) delete this.#scanners[file];
  }

  /** Forgets what was kept on the disk. */
  remove(): void {
    this.#tables = undefined;
    removeIndex(this.#path);
  }

  write(atLeast = worthWriting): void {
    if (!this.#tables || this.#unwritten < atLeast) return;
    // Where it cannot be written, it is not tried again for every line.
    const { metrics, timing, events } = this.#tables;
    writeIndex(this.#path, this.#facts, [metrics, timing], JSON.stringify(events));
    this.#unwritten = 0;
  }

  #refresh(whole: boolean): Promise<RunTables | undefined> {
    this.#reading++;
    const one = this.#busy.then(() => this.#catchUp(whole)).finally(() => this.#reading--);
    // After one that failed the next one tries again.
    this.#busy = one.catch(() => {});
    return one;
  }

  /** Answers the tables where they had to be looked at. */
  async #catchUp(whole: boolean): Promise<RunTables | undefined> {
    const looked = () => files.map((file) => stateOf(pathIn(this.#dir, file), this.#facts.marks[file]));
    const still = (states: readonly FileState[]) =>
      states.every((state, i) => state === "same" || (state === "gone" && !this.#facts.marks[files[i]!]));
    if (!whole && still(looked())) return undefined;
    const tables = this.#load();
    // Again: what is known of it goes by the tables that could be loaded.
    const states = looked();
    if (still(states)) return tables;
    const before = this.#facts.marks.metrics && tables.metrics;
    for (const [i, file] of files.entries()) {
      const state = states[i]!;
      if (state === "same") continue;
      if (state === "gone" || state === "replaced") this.#forget(file, tables);
      if (state !== "gone") await this.#read(file, tables);
    }
    if (before && before !== tables.metrics) {
      this.generation++;
      this.cutTo = commonStep(before, tables.metrics);
    }
    this.#facts.summary = summaryOf(tables);
    this.write();
    return tables;
  }

  #forget(file: IndexedFile, tables: RunTables): void {
    delete this.#facts.marks[file];
    this.#facts.problems[file] = [];
    this.#unwritten = Number.POSITIVE_INFINITY;
    if (file === "events") {
      this.#facts.heldOut = {};
      tables.events = [];
      return;
    }
    tables[file] = new NumberTable();
    delete this.#scanners[file];
  }

  async #read(file: IndexedFile, tables: RunTables): Promise<void> {
    const mark = this.#facts.marks[file];
    try {
      const read = await (file === "events"
        ? this.#readEvents(tables, mark)
        : this.#readTable(file, tables[file], mark));
      this.#unwritten += read.offset - (mark?.offset ?? 0);
      this.#facts.marks[file] = read;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === undefined) throw error;
      // It went away between two looks, or may not be read: the next look says.
      this.#facts.problems[file] = [{ where: runFiles[file], message: `cannot be read: ${(error as Error).message}` }];
    }
  }

  #readTable(file: TableFile, table: NumberTable, mark: FileMark | undefined): Promise<FileMark> {
    this.#scanners[file] ??= new LineScanner(table, (line, message) => this.#note(file, line, message), mark?.lines);
    const scanner = this.#scanners[file];
    return readOn(
      pathIn(this.#dir, file),
      mark,
      (bytes, from, to) => scanner.scan(bytes, from, to),
      () => scanner.lines,
    );
  }

  async #readEvents(tables: RunTables, mark: FileMark | undefined): Promise<FileMark> {
    let lines = mark?.lines ?? 0;
    const events: RunEvent[] = [];
    const read = await readOn(
      pathIn(this.#dir, "events"),
      mark,
      (bytes, from, to) => {
        const { at, line } = scanEvents(bytes, from, to, lines, (number, start, end) => {
          const record = recordIn(bytes, start, end);
          const event = record && eventOf(record);
          if (event) events.push(event);
          else this.#note("events", number, record ? "is no event" : "is no JSON object");
        });
        lines = line;
        return at;
      },
      () => lines,
    );
    // Only now: of a file that goes away while it is read, nothing may be known twice when it is there again.
    for (const event of events) addEvaluation(this.#facts.heldOut, event);
    tables.events = [...tables.events, ...events];
    return read;
  }

  #note(file: IndexedFile, line: number, message: string): void {
    const problems = this.#facts.problems[file];
    if (problems.length < mostProblems) problems.push({ where: `${runFiles[file]}, line ${line}`, message });
  }

  #load(): RunTables {
    if (this.#tables) return this.#tables;
    const { dir, marks } = this.#facts;
    const known = Object.keys(marks).length > 0;
    const kept = known ? readWhole<Facts>(this.#path) : undefined;
    // With the marks that stand beside them: another dashboard may have written the file since its head was read.
    if (known) this.#facts = kept?.facts.dir === dir ? kept.facts : nothing(dir);
    const [metrics = new NumberTable(), timing = new NumberTable()] = this.#facts === kept?.facts ? kept.tables : [];
    const events = this.#facts === kept?.facts ? (JSON.parse(kept.text) as RunEvent[]) : [];
    this.#tables = { metrics, timing, events };
    return this.#tables;
  }
}

function nothing(dir: string): Facts {
  const empty = { metrics: new NumberTable(), timing: new NumberTable(), events: [] };
  return { dir, marks: {}, problems: { metrics: [], timing: [], events: [] }, summary: summaryOf(empty), heldOut: {} };
}

function realPath(dir: string): string {
  try {
    return realpathSync(dir);
  } catch {
    return dir;
  }
}

/** Up to which step two tables say the same. */
function commonStep(a: NumberTable, b: NumberTable): number {
  const rows = Math.min(a.rows, b.rows);
  let row = 0;
  while (row < rows && sameRow(a, b, row)) row++;
  return row === 0 ? 0 : a.steps[row - 1]!;
}

function sameRow(a: NumberTable, b: NumberTable, row: number): boolean {
  if (a.steps[row] !== b.steps[row]) return false;
  return a.columns.every((column) => {
    const other = b.get(column.name);
    if (!other) return !column.has(row);
    return other.has(row) === column.has(row) && Object.is(other.values[row] ?? 0, column.values[row] ?? 0);
  });
}

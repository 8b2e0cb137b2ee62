/** Pages of a run's conversations. */
import { setImmediate } from "node:timers/promises";
import type { ProblemData, TrajectoriesData, TrajectoryRow } from "../../api/index.ts";
import { decodeCursor, encodeCursor } from "../cursor.ts";
import type { StepKey, StepSet } from "../keys.ts";
import type { RunPlace } from "../places.ts";
import type { Query } from "../reader.ts";
import { rowOfLine } from "./row-facts.ts";
import type { StepFile, StepFiles } from "./step-files.ts";
import { rowFilter, says } from "./wanted.ts";

const pageRows = 50;
/** Lines that one answer looks into for a text before it gives what it has, with where to go on. */
const mostSearched = 20_000;
const mostProblems = 50;

export async function listTrajectories(files: StepFiles, place: RunPlace, query: Query): Promise<TrajectoriesData> {
  const set: StepSet = query.set === "evaluation" ? "evaluation" : "training";
  const all = files.steps(place.dir, set);
  const steps = query.step === undefined ? all : all.filter((step) => step === Number(query.step));
  const walk: Walk = { files, place, set, query };
  if (query.sort === "reward" || query.sort === "-reward") return byReward(walk, steps);
  return byStep(walk, query.sort === "-step" ? [...steps].reverse() : steps);
}

interface Walk {
  files: StepFiles;
  place: RunPlace;
  set: StepSet;
  query: Query;
}

/** Reads no further than the page. The cursor is a step and a line: it stays right while steps are added. */
async function byStep({ files, place, set, query }: Walk, steps: readonly number[]): Promise<TrajectoriesData> {
  const isWanted = rowFilter(query);
  const [fromStep, fromLine] = decodeCursor(query, 2) ?? [];
  const rows: TrajectoryRow[] = [];
  const problems: ProblemData[] = [];
  let searched = 0;
  // A step that was cut away since is passed over: what comes after it goes on.
  const isNext = (step: number) => (query.sort === "-step" ? step <= fromStep! : step >= fromStep!);
  const left = fromStep === undefined ? steps : steps.filter(isNext);
  for (const step of left) {
    const file = files.file(place.dir, set, step);
    await setImmediate();
    if (!file) continue;
    addProblems(problems, file);
    const key: StepKey = { run: place.key, set, step };
    for (let line = step === fromStep ? fromLine! : 0; line < file.lines.length; line++) {
      const { row } = file.lines[line]!;
      if (!row || !isWanted(row)) continue;
      if (rows.length === pageRows || searched === mostSearched)
        return { rows, total: null, next: encodeCursor(query, [step, line]), problems };
      if (query.text !== undefined) {
        if (++searched % 100 === 0) await setImmediate();
        if (!says(files.record(file, line), query.text)) continue;
      }
      rows.push(rowOfLine(row, key, line));
    }
  }
  // All of it was seen, if this was the first page.
  return { rows, total: fromStep === undefined ? rows.length : null, next: null, problems };
}

/** Needs every row; the cursor is a place in the sorted list. */
async function byReward({ files, place, set, query }: Walk, steps: readonly number[]): Promise<TrajectoriesData> {
  const isWanted = rowFilter(query);
  const [from = 0] = decodeCursor(query, 1) ?? [];
  const found: { reward: number | null; row: () => TrajectoryRow }[] = [];
  const problems: ProblemData[] = [];
  for (const step of steps) {
    const file = files.file(place.dir, set, step);
    await setImmediate();
    if (!file) continue;
    addProblems(problems, file);
    for (const [line, { row }] of file.lines.entries()) {
      if (!row || !isWanted(row)) continue;
      if (query.text !== undefined && !says(files.record(file, line), query.text)) continue;
      found.push({ reward: row.reward, row: () => rowOfLine(row, { run: place.key, set, step }, line) });
    }
  }
  const sign = query.sort === "-reward" ? -1 : 1;
  // Those without one come last, whichever way it goes.
  found.sort((a, b) =>
    a.reward === null || b.reward === null
      ? Number(a.reward === null) - Number(b.reward === null)
      : sign * (a.reward - b.reward),
  );
  return {
    rows: found.slice(from, from + pageRows).map(({ row }) => row()),
    total: found.length,
    next: from + pageRows < found.length ? encodeCursor(query, [from + pageRows]) : null,
    problems,
  };
}

function addProblems(problems: ProblemData[], file: StepFile): void {
  problems.push(...file.problems.slice(0, mostProblems - problems.length));
}

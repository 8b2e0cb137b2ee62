/** One line of the list of runs. */
import { existsSync, statSync } from "node:fs";
import { basename, dirname, isAbsolute, join } from "node:path";
import { pathIn, runFiles } from "../../run/layout.ts";
import { holderOf } from "../../run/lock.ts";
import { readNotes } from "../../run/notes.ts";
import { type RunStatus, readStatus } from "../../run/status.ts";
import type { ProblemData, RunRow, RunStateName } from "../api/index.ts";
import { runStates } from "../api/index.ts";
import { heldOutOf } from "./index/held-out.ts";
import { type JsonObject, numberAt, stringAt } from "./json-file.ts";
import type { Library } from "./library.ts";
import type { RunPlace } from "./places.ts";

/** Throws where the folder is no more. */
export async function rowOf(library: Library, { key, folder, dir }: RunPlace): Promise<RunRow> {
  const index = library.indexes.of(dir);
  const [summary, ends] = [await index.summary(), await index.heldOut()];
  const { value: config, problem } = library.json.read(pathIn(dir, "config"));
  const notes = readNotes(dir);
  const status = statusOf(dir);
  const last = (name: string) => summary.metrics.find((metric) => metric.name === name)?.last ?? null;
  return {
    key,
    id: stringAt(config, "id") ?? basename(dir),
    folder,
    ...status,
    problems: [...configProblems(dir, config, problem), ...notesProblems(notes.problem), ...index.problems()],
    learner: stringAt(config, "learner"),
    algorithm: algorithmOf(config),
    model: modelOf(config),
    seed: numberAt(config, "settings", "seed"),
    step: summary.step,
    steps: status.steps ?? numberAt(config, "settings", "steps"),
    curve: summary.curve,
    reward: last("reward"),
    loss: last("loss"),
    heldOut: heldOutOf(ends),
    tokensPerSecond: summary.tokensPerSecond,
    tags: notes.tags,
    note: notes.note,
    archived: notes.archived,
  };
}

/** Of a learner from data, what it learns by. */
export function algorithmOf(config: JsonObject | undefined): string | null {
  const learner = stringAt(config, "learner");
  return stringAt(config, "algorithm", "algorithm") ?? (learner === "rl" ? null : learner);
}

/** A path says more by its end than by its beginning. */
function modelOf(config: JsonObject | undefined): string | null {
  const name = stringAt(config, "model", "name");
  if (name === null || !isAbsolute(name)) return name;
  const own = basename(name);
  return ["model", "final", "policy"].includes(own) ? join(basename(dirname(name)), own) : own;
}

function configProblems(dir: string, config: JsonObject | undefined, problem: string | undefined): ProblemData[] {
  if (problem !== undefined) return [{ where: runFiles.config, message: problem }];
  // One that samples before it learns writes its configuration when learning begins.
  if (!config) return existsSync(pathIn(dir, "harvest")) ? [] : [{ where: runFiles.config, message: "is not there" }];
  if (config.version === 2) return [];
  const message = `was written by another version (${JSON.stringify(config.version) ?? "none"}; this one knows 2): what can be read is shown`;
  return [{ where: runFiles.config, message }];
}

function notesProblems(problem: string | undefined): ProblemData[] {
  return problem === undefined ? [] : [{ where: runFiles.notes, message: problem }];
}

type StatusPart = Pick<RunRow, "state" | "reason" | "startedAt" | "heartbeatAt"> & { steps: number | null };

function statusOf(dir: string): StatusPart {
  const status = readStatus(dir);
  if (!status) {
    return { state: stateWithout(dir), reason: null, startedAt: bornAt(dir), heartbeatAt: null, steps: null };
  }
  const { startedAt, heartbeatAt } = status;
  return {
    state: knownState(status),
    reason: typeof status.reason === "string" ? status.reason : null,
    startedAt,
    heartbeatAt: Number.isFinite(heartbeatAt) ? heartbeatAt : null,
    steps: numberAt(status, "steps"),
  };
}

/** A later version may have more states; what is none of these does not run here. */
function knownState({ state }: RunStatus): RunStateName {
  return (runStates as readonly string[]).includes(state) ? state : "lost";
}

function stateWithout(dir: string): RunStateName {
  if (existsSync(pathIn(dir, "final"))) return "finished";
  return holderOf(dir) ? "running" : "lost";
}

function bornAt(dir: string): number {
  const { birthtimeMs, mtimeMs } = statSync(dir);
  return birthtimeMs || mtimeMs;
}

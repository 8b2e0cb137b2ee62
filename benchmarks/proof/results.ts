/** What is committed of the proof, and the pages that are made of it. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { type JobRow, settingsHash } from "../parallel.ts";
import type { LettersJob, Measured } from "./measure.ts";
import { learners } from "./plan.ts";
import { plot } from "./plot.ts";
import { page } from "./report.ts";
import { settingsOf } from "./settings.ts";
import type { StarterJob, StarterResult } from "./starter/measure.ts";
import { plotStarter } from "./starter/plot.ts";
import { starterSection } from "./starter/report.ts";
import { settingsOf as starterSettings } from "./starter/settings.ts";
import type { StarterRun } from "./starter/verdict.ts";
import { judge, type Verdict } from "./verdict.ts";

export interface ClipResult {
  clipped: { clipFraction: number; approxKl: number };
  unclipped: { approxKl: number };
}

export interface Letters {
  /** Of each learner, the hash of what it was measured with. */
  settings: Record<string, string>;
  verdicts: Record<string, Verdict>;
  clip?: ClipResult;
  machines: string[];
}

export interface Starter {
  machines: string[];
  runs: StarterRun[];
}

/** The repository: npm starts its scripts there. A bundle may lie anywhere. */
const root = pathToFileURL(`${process.cwd()}/`);
const files = { letters: "benchmarks/results/proof.json", starter: "benchmarks/results/proof-starter.json" };

/** The committed results but those measured with other settings. A trial of other seeds is not mixed with them. */
export function keptResults(trial: boolean): { letters: Letters; starter: Starter } {
  const letters: Letters = (!trial && read(files.letters)) || { settings: {}, verdicts: {}, machines: [] };
  const starter: Starter = (!trial && read(files.starter)) || { runs: [], machines: [] };
  const current = (learner: string) => letters.settings[learner] === settingsHash(settingsOf({ learner }));
  const { clip, ...rest } = letters;
  return {
    letters: {
      ...rest,
      verdicts: Object.fromEntries(Object.entries(letters.verdicts).filter(([learner]) => current(learner))),
      ...(clip && Object.keys(clip).every(current) && { clip }),
    },
    starter: {
      ...starter,
      runs: starter.runs.filter((run) => run.settings === settingsHash(starterSettings(run))),
    },
  };
}

function read<T>(file: string): T | undefined {
  const url = new URL(file, root);
  return existsSync(url) ? (JSON.parse(readFileSync(url, "utf8")) as T) : undefined;
}

/** The committed results with those rows in place of their own of the same learners. */
export function mergeLetters(before: Letters, rows: readonly JobRow<LettersJob, Measured>[]): Letters {
  const of = (learner: string, sign: 1 | -1) =>
    rows
      .filter(({ job }) => job.learner === learner && job.sign === sign && job.rate === undefined)
      .map(({ result }) => result);
  const fresh = learners.flatMap((name) => {
    const [right, flipped] = [of(name, 1), of(name, -1)];
    return right.length > 0 && right.length === flipped.length ? [[name, judge(right, flipped)] as const] : [];
  });
  const renewed = Object.keys(before.verdicts).every((name) => fresh.some(([own]) => own === name));
  const found = { ...before.verdicts, ...Object.fromEntries(fresh) };
  const clip = clipOf(of("clipped", 1), of("unclipped", 1)) ?? before.clip;
  const names = [...Object.keys(found), ...Object.keys(clip ?? {})];
  return {
    settings: Object.fromEntries(names.map((learner) => [learner, settingsHash(settingsOf({ learner }))])),
    verdicts: Object.fromEntries(learners.flatMap((name) => (found[name] ? [[name, found[name]]] : []))),
    ...(clip && { clip }),
    machines: machinesOf(renewed ? [] : before.machines, rows),
  };
}

function clipOf(clipped: readonly Measured[], unclipped: readonly Measured[]): ClipResult | undefined {
  if (clipped.length === 0 || unclipped.length === 0) return undefined;
  const mean = (runs: readonly Measured[], name: "clipFraction" | "approxKl") =>
    runs.reduce((sum, { metrics }) => sum + metrics[name]!, 0) / runs.length;
  return {
    clipped: { clipFraction: mean(clipped, "clipFraction"), approxKl: mean(clipped, "approxKl") },
    unclipped: { approxKl: mean(unclipped, "approxKl") },
  };
}

export function mergeStarter(before: Starter, rows: readonly JobRow<StarterJob, StarterResult>[]): Starter {
  const key = ({ task, learner, seed, sign }: Omit<StarterJob, "part">) => JSON.stringify([task, learner, sign, seed]);
  const runs = new Map(before.runs.map((run) => [key(run), run]));
  const fresh = new Set(rows.map(({ job }) => key(job)));
  const machines = before.runs.every((run) => fresh.has(key(run))) ? [] : before.machines;
  for (const { job, result, cpuSeconds, settings } of rows) {
    const { part: _, ...rest } = job;
    runs.set(key(rest), { ...rest, ...result, cpuSeconds, settings });
  }
  const ordered = [...runs.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, run]) => run);
  return { machines: machinesOf(machines, rows), runs: ordered };
}

/** Those of results that stay, and of the new ones. */
function machinesOf(before: readonly string[], rows: readonly { machine: string }[]): string[] {
  return [...new Set([...before, ...rows.map(({ machine }) => machine)])];
}

/** Writes results, page and plots: the same bytes for the same results. */
export function write(exact: Letters, starter: Starter): void {
  // What is kept is what the page is made of, so that --render makes the same one of it.
  const letters = JSON.parse(JSON.stringify(exact, rounded)) as Letters;
  if (!existsSync(new URL("benchmarks/results/", root))) {
    throw new Error(
      "There is no benchmarks/results here to write to: start in the root of the repository, or give --no-write.",
    );
  }
  const put = (path: string, text: string) => {
    const url = new URL(path, root);
    mkdirSync(new URL(".", url), { recursive: true });
    writeFileSync(url, text);
  };
  put(files.letters, `${JSON.stringify(letters)}\n`);
  if (starter.runs.length > 0) {
    // A run a line.
    const { runs, ...rest } = starter;
    const lines = runs.map((run) => JSON.stringify(run)).join(",\n");
    put(files.starter, `${JSON.stringify(rest).slice(0, -1)},"runs":[\n${lines}\n]}\n`);
    put("docs/images/proof-starter.svg", plotStarter(starter.runs));
  }
  put("docs/results/proof.md", page(letters, starterSection(starter.runs, starter.machines)));
  put("docs/images/proof.svg", plot(letters.verdicts));
}

function rounded(_: string, value: unknown): unknown {
  return typeof value === "number" ? Number(value.toPrecision(5)) : value;
}

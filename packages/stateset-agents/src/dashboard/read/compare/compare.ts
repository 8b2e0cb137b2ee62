/** Several runs side by side. */
import { setImmediate } from "node:timers/promises";
import { pairedTest } from "../../../evaluation/paired-test.ts";
import { differences } from "../../../run/differences.ts";
import { HttpError } from "../../../server/http-error.ts";
import type { CompareData, ProblemData } from "../../api/index.ts";
import { evaluationsOf } from "../evaluations.ts";
import type { JsonObject } from "../json-file.ts";
import type { Library } from "../library.ts";
import type { RunPlace } from "../places.ts";
import type { Query } from "../reader.ts";
import { rowOf } from "../row.ts";
import { namesIn } from "../series.ts";
import { type Scored, type Scores, scoresBySet, scoresToCompare, unlike } from "./scores.ts";

/** Each pair is tested, so their number grows by the square. */
const mostRuns = 50;

/** Of those that were named; one that is no longer there is a problem, and the others stay. */
export function placesIn(library: Library, query: Query, problems: ProblemData[] = []): RunPlace[] {
  const keys = namesIn(query.runs ?? "");
  if (keys.length === 0) throw new HttpError(400, "Name the runs to compare, separated by commas.", { param: "runs" });
  if (keys.length > mostRuns)
    throw new HttpError(400, `At most ${mostRuns} runs are compared; ${keys.length} were named.`, { param: "runs" });
  const missing: HttpError[] = [];
  const places = keys.flatMap((key) => {
    try {
      return [library.place(key)];
    } catch (error) {
      if (!(error instanceof HttpError)) throw error;
      missing.push(error);
      problems.push({ where: key, message: error.message });
      return [];
    }
  });
  if (places.length === 0) throw missing[0]!;
  return places;
}

async function compared(library: Library, place: RunPlace) {
  const row = await rowOf(library, place);
  const index = library.indexes.of(place.dir);
  const { metrics } = await index.summary();
  const { evaluations, problems } = await evaluationsOf(place.dir, index);
  return {
    key: place.key,
    id: row.id,
    row,
    config: library.config(place.dir),
    metrics,
    measured: scoresBySet(evaluations),
    problems: [...row.problems, ...problems].map(({ where, message }) => ({
      where: `${place.key}: ${where}`,
      message,
    })),
  };
}

export async function compareRuns(library: Library, query: Query): Promise<CompareData> {
  const read: Awaited<ReturnType<typeof compared>>[] = [];
  const problems: ProblemData[] = [];
  for (const place of placesIn(library, query, problems)) read.push(await compared(library, place));
  const runs = scoresToCompare(read);
  const metrics = [...new Set(runs.flatMap((run) => run.metrics.map(({ name }) => name)))];
  return {
    runs: runs.map(({ key, id }) => ({ key, id })),
    settings: settingsThatDiffer(runs.map(({ config }) => config ?? {})),
    metrics,
    heldOut: runs.map(({ key, row }) => ({
      key,
      metric: row.heldOut?.metric ?? null,
      algorithm: row.algorithm,
      before: row.heldOut?.before ?? null,
      after: row.heldOut?.after ?? null,
    })),
    pairs: await pairsOf(runs),
    scenarios: scenariosOf(runs.map(({ scores }) => scores)),
    problems: [...problems, ...runs.flatMap((run) => run.problems)],
  };
}

/** The name and folder of a run are no setting. */
const notShown = /^(?:id|version)$/;

function settingsThatDiffer(configs: readonly JsonObject[]): CompareData["settings"] {
  const paths = new Set(configs.flatMap((config) => differences(configs[0]!, config).map(({ path }) => path)));
  const flat = configs.map((config) => new Map(differences({}, config).map(({ path, b }) => [path, b])));
  return [...paths]
    .filter((path) => !notShown.test(path))
    .sort()
    .map((path) => ({ path, values: flat.map((values) => values.get(path) ?? null) }));
}

/** Enough for a p-value of 0.001, and each pair takes milliseconds. */
const resamples = 1999;
const untested = { pValue: null, verdict: "unknown" } as const;

async function pairsOf(runs: readonly Scored[]): Promise<CompareData["pairs"]> {
  const pairs: CompareData["pairs"] = [];
  for (const [i, a] of runs.entries()) {
    for (const b of runs.slice(i + 1)) {
      if (a.set === undefined || b.set === undefined) continue;
      const why = unlike(a, b);
      if (why !== null) {
        pairs.push({ a: a.key, b: b.key, unlike: why, difference: { mean: null, count: 0 }, ...untested });
        continue;
      }
      const common = [...a.scores.keys()].filter((id) => b.scores.has(id));
      const of = ({ scores }: Scored) => common.map((id) => scores.get(id)!);
      const { difference, pValue, verdict } = pairedTest(of(a), of(b), { resamples });
      pairs.push({ a: a.key, b: b.key, unlike: null, difference: { ...difference }, pValue, verdict });
    }
    await setImmediate();
  }
  return pairs;
}

function scenariosOf(runs: readonly Scores[]): CompareData["scenarios"] {
  const ids = [...new Set(runs.flatMap((scores) => [...scores.keys()]))];
  const spread = (values: readonly (number | null)[]) => {
    const known = values.filter((value) => value !== null);
    return Math.max(...known) - Math.min(...known);
  };
  return ids
    .map((id) => ({ id, values: runs.map((scores) => scores.get(id) ?? null) }))
    .sort((a, b) => spread(b.values) - spread(a.values) || (a.id < b.id ? -1 : 1));
}

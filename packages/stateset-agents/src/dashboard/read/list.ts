/** The list of runs. */

import { messageOf } from "../../error.ts";
import { pathIn, runFiles } from "../../run/layout.ts";
import { HttpError } from "../../server/http-error.ts";
import type { ProblemData, RunRow, RunsData } from "../api/index.ts";
import { decodeCursor, encodeCursor } from "./cursor.ts";
import { type FieldSource, type FieldValue, fieldNames, fieldOf, isField, settingsOf } from "./filter/fields.ts";
import { checkNames, matches, orderBy, suggestion } from "./filter/match.ts";
import { parseFilter } from "./filter/parse.ts";
import type { JsonObject } from "./json-file.ts";
import type { Library } from "./library.ts";
import { foldersOf, listPlaces, type RunPlace } from "./places.ts";
import type { Query } from "./reader.ts";
import { rowOf } from "./row.ts";

const pageRows = 200;
/** Taken apart once: a list of many runs asks for them over and over. */
const settings = new WeakMap<JsonObject, ReturnType<typeof settingsOf>>();

export async function listRuns(library: Library, query: Query): Promise<Omit<RunsData, "readOnly">> {
  const filter = parseFilter(query.filter ?? "");
  const place = decodeCursor(query, 1);
  const { sources, problems } = await sourcesOf(library);
  checkNames(filter, sources);
  const descending = query.sort?.startsWith("-") ?? false;
  const sort = descending ? query.sort!.slice(1) : query.sort;
  for (const [param, name] of Object.entries({ sort, group: query.group })) {
    if (name === undefined || sources.length === 0 || isField(sources, name)) continue;
    const message = `There is no ${JSON.stringify(name)} to ${param} by.${suggestion(name, sources)}`;
    throw new HttpError(400, message, { param, code: "field_unknown" });
  }
  const wanted = sources
    .filter(({ row }) => query.archived === "all" || row.archived === (query.archived === "only"))
    .filter((source) => matches(filter, source))
    .sort(sort === undefined ? newestFirst : orderBy(sort, descending));
  const from = place?.[0] ?? 0;
  const page = wanted.slice(from, from + pageRows);
  const { group } = query;
  return {
    rows: page.map((source) => ({
      ...source.row,
      ...(group !== undefined && { group: textOf(fieldOf(source, group)) }),
    })),
    total: wanted.length,
    next: from + pageRows < wanted.length ? encodeCursor(query, [from + pageRows]) : null,
    folders: foldersOf(library.folders),
    fields: fieldNames(sources),
    problems,
  };
}

async function sourcesOf(library: Library): Promise<{ sources: FieldSource[]; problems: ProblemData[] }> {
  const sources: FieldSource[] = [];
  const problems: ProblemData[] = [];
  for (const place of listPlaces(library.folders)) {
    try {
      sources.push(await sourceOf(library, place));
    } catch (error) {
      // Removed meanwhile, or not ours to read: the others are shown all the same.
      problems.push({ where: place.key, message: `cannot be read: ${messageOf(error)}` });
    }
  }
  nameTwins(sources.map(({ row }) => row));
  return { sources, problems };
}

async function sourceOf(library: Library, place: RunPlace): Promise<FieldSource> {
  const row = await rowOf(library, place);
  const { metrics } = await library.indexes.of(place.dir).summary();
  const config = library.json.read(pathIn(place.dir, "config")).value;
  const known = config && settings.get(config);
  const own = known ?? settingsOf(config);
  if (config && !known) settings.set(config, own);
  return { row, metrics, settings: own };
}

/** Runs that call themselves the same, as a folder that was copied does: each says so. */
function nameTwins(rows: readonly RunRow[]): void {
  const byId = new Map<string, RunRow[]>();
  for (const row of rows) byId.set(row.id, [...(byId.get(row.id) ?? []), row]);
  for (const row of rows) {
    const others = byId.get(row.id)!.filter((other) => other !== row);
    if (others.length === 0) continue;
    const keys = others.slice(0, 3).map(({ key }) => key);
    row.problems.push({ where: runFiles.config, message: `has the same id as ${keys.join(", ")}` });
  }
}

const newestFirst = (a: FieldSource, b: FieldSource) =>
  b.row.startedAt - a.row.startedAt || (a.row.key < b.row.key ? -1 : 1);

function textOf(value: FieldValue | undefined): string {
  if (value === undefined || value === null) return "";
  return Array.isArray(value) ? value.join(", ") : String(value);
}

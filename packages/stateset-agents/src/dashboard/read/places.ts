/**
 * Which runs there are and where: direct children of the folders that are shown, or such a folder itself where it is a run. A key is
 * looked up among these and never made a path of, so that none leads elsewhere.
 */
import { readdirSync, realpathSync, statSync } from "node:fs";
import { basename, join, sep } from "node:path";
import { temporaryOwner } from "../../durable.ts";
import { isRun } from "../../run/read-run.ts";
import { HttpError } from "../../server/http-error.ts";

export interface RunPlace {
  key: string;
  /** In which of the folders, from 0. */
  folder: number;
  dir: string;
}

export interface Folder {
  path: string;
  exists: boolean;
}

export function foldersOf(paths: readonly string[]): Folder[] {
  return paths.map((path) => ({ path, exists: isFolder(path) }));
}

/** In the order of the folders, and of their names. */
export function listPlaces(folders: readonly string[]): RunPlace[] {
  return folders.flatMap((path, folder) =>
    childrenOf(path).map((dir) => ({ key: keyOf(basename(dir), folder), folder, dir })),
  );
}

export function placeOf(folders: readonly string[], key: string): RunPlace {
  const [, number, rest] = /^(\d+)~(.*)$/s.exec(key) ?? [];
  const folder = number === undefined ? 0 : Number(number) - 1;
  const name = rest ?? key;
  const path = folders[folder];
  const dir = path === undefined || isPath(name) || keyOf(name, folder) !== key ? undefined : childOf(path, name);
  if (dir === undefined) throw noRun(key);
  return { key, folder, dir };
}

export function noRun(key: string): HttpError {
  return new HttpError(404, `There is no run ${JSON.stringify(key)}.`, { param: "run" });
}

function keyOf(name: string, folder: number): string {
  return folder > 0 || /^\d+~/.test(name) ? `${folder + 1}~${name}` : name;
}

/** More, or other, than the name of a child. */
function isPath(name: string): boolean {
  return name === "" || name === "." || name === ".." || /[/\\\0]/.test(name);
}

function childrenOf(path: string): string[] {
  if (!isFolder(path)) return [];
  if (isRun(path)) return [path];
  let names: string[];
  try {
    names = readdirSync(path);
  } catch {
    return [];
  }
  return names.sort().flatMap((name) => (temporaryOwner(name) === undefined ? (childOf(path, name) ?? []) : []));
}

/** The folder of a run of this name; a link out of the folder is none. */
function childOf(path: string, name: string): string | undefined {
  if (isRun(path)) return basename(path) === name ? path : undefined;
  const dir = join(path, name);
  try {
    if (!statSync(dir).isDirectory() || !isRun(dir)) return undefined;
    return realpathSync(dir).startsWith(realpathSync(path) + sep) ? dir : undefined;
  } catch {
    return undefined;
  }
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}

import { existsSync } from "node:fs";
import { dirname, extname, join, resolve } from "node:path";
import { parseYaml, readWhole } from "../environment/yaml-items.ts";
import { StatesetError } from "../error.ts";
import type { ProjectConfig } from "./define-config.ts";
import { importFile } from "./import-file.ts";
import { fromPlainData, isProjectKey } from "./plain-config.ts";

const fileNames = ["ts", "mts", "js", "mjs", "yaml", "yml", "json"].map((extension) => `stateset.config.${extension}`);

export interface LoadedProject {
  /** The configuration's file. */
  file: string;
  /** Paths in the configuration are relative to this folder. */
  dir: string;
  config: ProjectConfig;
  /** What was understood but has no effect, in words. */
  notes: string[];
}

/** Reads the configuration at `path`, or the one of the folder `cwd`. */
export async function loadProject(path: string | undefined, cwd: string): Promise<LoadedProject> {
  const file = path === undefined ? findConfig(cwd) : resolve(cwd, path);
  if (file === undefined) {
    throw new StatesetError("CONFIG_NOT_FOUND", `There is no stateset.config.ts in ${cwd}.`, {
      hint: "Make a project with `npx stateset-agents init`, or name a file with --config.",
    });
  }
  if (!existsSync(file)) {
    throw new StatesetError("CONFIG_NOT_FOUND", `There is no configuration file ${file}.`, {
      hint: "Check the path given to --config.",
    });
  }
  const isData = [".yaml", ".yml", ".json"].includes(extname(file));
  const loaded = isData ? fromPlainData(await readData(file), file) : { config: await importConfig(file), notes: [] };
  return { file, dir: dirname(file), ...loaded };
}

export function findConfig(cwd: string): string | undefined {
  return fileNames.map((name) => join(cwd, name)).find((file) => existsSync(file));
}

/** JSON is YAML, so one parser names the line for both. */
async function readData(file: string): Promise<unknown> {
  return parseYaml(await readWhole(file), file).document.toJS();
}

async function importConfig(file: string): Promise<ProjectConfig> {
  const value = await importFile(file, "--config");
  const known = typeof value === "object" && value !== null && Object.keys(value).some(isProjectKey);
  if (!known) {
    throw new StatesetError("INVALID_DATA", `${file} exports no configuration.`, {
      hint: "Write `export default defineConfig({ environment: …, reward: … })`.",
    });
  }
  return value as ProjectConfig;
}

import { existsSync, readFileSync } from "node:fs";
import { dirname, extname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { createJiti } from "jiti";
import { LineCounter, parseDocument } from "yaml";
import { messageOf, StatesetError } from "../error.ts";
import type { ProjectConfig } from "./define-config.ts";
import { fromPlainData } from "./plain-config.ts";

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
  const loaded = isData ? fromPlainData(readData(file), file) : { config: await importConfig(file), notes: [] };
  return { file, dir: dirname(file), ...loaded };
}

export function findConfig(cwd: string): string | undefined {
  return fileNames.map((name) => join(cwd, name)).find((file) => existsSync(file));
}

/** Runs a TypeScript or JavaScript configuration. It gets this very copy of the library, wherever it lies on the disk. */
async function importConfig(file: string): Promise<ProjectConfig> {
  const jiti = createJiti(pathToFileURL(file).href, {
    interopDefault: true,
    moduleCache: false,
    virtualModules: await doors(),
  });
  let value: unknown;
  try {
    value = await jiti.import(file, { default: true });
  } catch (error) {
    if (StatesetError.isInstance(error)) throw error;
    throw new StatesetError("INVALID_DATA", `${file} could not be loaded: ${messageOf(error)}`, { cause: error });
  }
  if (typeof value !== "object" || value === null || !("environment" in value)) {
    throw new StatesetError("INVALID_DATA", `${file} exports no configuration.`, {
      hint: "Write `export default defineConfig({ environment: …, reward: … })`.",
    });
  }
  return value as ProjectConfig;
}

/** Every door of the library by the name it is imported by. */
async function doors(): Promise<Record<string, unknown>> {
  return {
    "stateset-agents": await import("../index.ts"),
    "stateset-agents/policy": await import("../doors/policy.ts"),
    "stateset-agents/algorithms": await import("../doors/algorithms.ts"),
    "stateset-agents/rewards": await import("../doors/rewards.ts"),
    "stateset-agents/telemetry": await import("../doors/telemetry.ts"),
    "stateset-agents/testing": await import("../doors/testing.ts"),
    "stateset-agents/compat": await import("../doors/compat.ts"),
  };
}

/** JSON is YAML, so one parser names the line for both. */
function readData(file: string): unknown {
  const lines = new LineCounter();
  const document = parseDocument(readFileSync(file, "utf8"), { lineCounter: lines, prettyErrors: false });
  const problem = document.errors[0];
  if (problem) {
    const { line } = lines.linePos(problem.pos[0]);
    throw new StatesetError("INVALID_DATA", `${file}, line ${line}: ${problem.message}`, { cause: problem });
  }
  return document.toJS();
}

/** What a run was told, and which of it somebody chose. */
import { messageOf } from "../../error.ts";
import type { RunConfig } from "../../run/config.ts";
import { pathIn, runFiles } from "../../run/layout.ts";
import type { ConfigData, ProblemData } from "../api/index.ts";
import { changedFromDefaults } from "./changed-settings.ts";
import type { Library } from "./library.ts";

export function configOf(library: Library, dir: string): ConfigData {
  const { value: config, problem } = library.json.read(pathIn(dir, "config"));
  const problems: ProblemData[] = problem === undefined ? [] : [{ where: runFiles.config, message: problem }];
  if (!config) return { config: null, changed: [], problems };
  try {
    return { config: { ...config }, changed: [...changedFromDefaults(config as unknown as RunConfig)], problems };
  } catch (error) {
    // Of another version: what it was told is shown as it is.
    problems.push({ where: runFiles.config, message: `cannot be compared with the defaults: ${messageOf(error)}` });
    return { config: { ...config }, changed: [], problems };
  }
}

import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { starterModelPath } from "@stateset-agents/starter-model";
import { StatesetError } from "../error.ts";
import { pathIn } from "../run/layout.ts";
import { isRun, listRuns, type RunInfo } from "../run/read-run.ts";
import type { CliIo } from "./io.ts";

/** What `--checkpoint` may be, for the help of every command that has one. */
export const checkpointHelp =
  "a run (its name or folder, finished or not), one of its checkpoints (runs/a/checkpoints/step-000040, a/best, a/last), a model folder or GGUF file, `last` or `best` (of the newest run) or `starter`";

/** A path, the name of a run below `runs/`, or a word for one of those. */
export function checkpointPath(checkpoint: string, io: CliIo): string {
  if (checkpoint === "starter") return starterModelPath;
  const path = resolve(io.cwd, checkpoint);
  const runs = join(io.cwd, "runs");
  if (existsSync(path)) return path;
  const [name = "", ...inside] = checkpoint.split("/");
  if (isRun(join(runs, name))) {
    const word = inside.length === 1 && (inside[0] === "best" || inside[0] === "last");
    return join(runs, name, ...(word ? ["checkpoints"] : []), ...inside);
  }
  if (checkpoint !== "last" && checkpoint !== "best") return path;
  const newest = listRuns(runs).find(talks);
  if (!newest) {
    throw new StatesetError("CHECKPOINT_NOT_FOUND", `There is no trained agent in ${runs}.`, {
      hint: "Train one with `npx stateset-agents train`.",
    });
  }
  if (checkpoint === "last") return newest.dir;
  if (newest.best !== undefined) return newest.best;
  throw new StatesetError("CHECKPOINT_NOT_FOUND", `The newest run, ${newest.id}, has no best checkpoint.`, {
    hint: "A run names its best where it has held-out scenarios. Name another run: --checkpoint runs/NAME/checkpoints/best.",
  });
}

function talks({ config, checkpoints, dir }: RunInfo): boolean {
  const scores = config?.learner === "reward-model" || config?.learner === "value-function";
  return !scores && (checkpoints.length > 0 || existsSync(pathIn(dir, "final")));
}

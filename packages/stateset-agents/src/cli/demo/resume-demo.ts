/** Going on with a demo that was stopped: with what it was started with, from its last checkpoint. */
import { StatesetError } from "../../error.ts";
import { pick } from "../../options.ts";
import { runDirOf } from "../../run/checkpoint/store.ts";
import { readConfig } from "../../run/config.ts";
import type { CliIo } from "../io.ts";
import { readInvocation } from "../run/invocation.ts";
import { resumePath } from "../run/place.ts";
import type { DemoOptions } from "./run-demo.ts";

/** What decides about a demo's numbers, and so stays as it is. */
const settled = ["task", "seed", "steps", "reward", "model"] as const satisfies (keyof DemoOptions)[];

/** The demo that `--resume` names, with the flags it was started with; `given` as it is where nothing is resumed. */
export function resumedDemo(given: DemoOptions, io: CliIo): { options: DemoOptions; resumeFrom: string | undefined } {
  const resumeFrom = resumePath(given.resume, "demo", io);
  if (resumeFrom === undefined) return { options: given, resumeFrom };
  const changed = settled.find((name) => given[name] !== undefined);
  if (changed !== undefined) {
    throw new StatesetError("INVALID_OPTION", `A demo that is resumed goes on with its own --${changed}.`, {
      hint: `Leave --${changed} out, or leave --resume out to start another demo.`,
    });
  }
  const dir = runDirOf(resumeFrom);
  // Says where there is no run at all.
  readConfig(dir);
  const { demo, ...kept } = readInvocation(dir);
  if (demo === undefined) {
    throw new StatesetError("CHECKPOINT_MISMATCH", `The run in ${dir} is no demo.`, {
      hint: "Go on with it by the command that made it.",
    });
  }
  const started = { ...demo, ...pick(kept, ["model", "engine", "gpus", "threads"]) };
  return { options: { ...started, ...given }, resumeFrom };
}

/** What the end of every run has in common, whatever learnt. */
import { counted } from "../../counted.ts";
import type { RunSummary } from "../../run/summary.ts";
import { type CliIo, colorsOf, print } from "../io.ts";

type Ended = Pick<RunSummary, "id" | "status" | "steps" | "reason" | "dir" | "finalDir" | "best">;

/** The beginning of the last line of --json. */
export function resultFacts({ id, status, steps, reason, dir, finalDir, best }: Ended): Record<string, unknown> {
  const place = { dir: dir ?? null, final: finalDir ?? null };
  return { type: "result", run: id, status, steps, reason: reason ?? null, ...place, best };
}

export function printDone({ status, steps, reason }: Ended, io: CliIo): void {
  const words = status === "stopped-early" ? "Stopped early" : "Done";
  print(io, "", `${colorsOf(io).green("✓")} ${words}: ${counted(steps, "step")}.${reason ? ` ${reason}` : ""}`);
}

import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { z } from "zod";
import { parseOptions } from "../options.ts";
import type { Tracker } from "../run/tracker.ts";

const schema = z.strictObject({ path: z.string().min(1) });

/** One JSON object a line in a file of your choice: the run, each step, the end. The run folder has its own metrics.jsonl. */
export function fileTracker(options: { path: string }): Tracker {
  const { path } = parseOptions(schema, options, "fileTracker");
  const write = (record: unknown) => appendFile(path, `${JSON.stringify(record)}\n`);
  return {
    name: "file",
    async start(run) {
      await mkdir(dirname(path), { recursive: true });
      if (run.resumedAfter === undefined) await writeFile(path, "");
      await write({ type: "start", ...run });
    },
    log: (step, metrics) => write({ type: "step", step, ...metrics }),
    finish: (outcome) => write({ type: "end", ...outcome }),
  };
}

/** A small run in a process of its own, for tests that kill it: `node killable-run.mjs <learner> <dir>`. Resumes what it finds. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { actingRun } from "./acting-run.ts";
import { harnessRun } from "./harness-run.ts";
import { tableLearner, type tableLearners } from "./table-learners.ts";

const [learner, dir] = process.argv.slice(2) as [(typeof tableLearners)[number] | "acting" | "harness", string];
const run = learner === "acting" ? actingRun : learner === "harness" ? harnessRun : tableLearner(learner).run;
await run({
  ...(existsSync(join(dir, "config.json")) ? { resumeFrom: dir } : { dir }),
  name: "killable",
  callbacks: { onStart: () => void process.stdout.write("started\n") },
});

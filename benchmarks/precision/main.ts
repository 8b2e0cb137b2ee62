/**
 * `npm run bench:precision`: what training in fewer bits does to learning: GRPO on three tasks of the starter model, beside f32, with seeds that
 * nothing was tuned with. --arms NAME,NAME --tasks NAME,NAME --seeds N,N --jobs N (processes at once) --minutes N (start none after that)
 * --rows FILE (where finished runs are kept, which are not made again; default .fleet/precision.jsonl) --no-write. The page is written
 * from all that is kept of its seeds.
 */
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { defaultsStamp } from "../defaults.ts";
import { describeMachine } from "../machine.ts";
import { keptRows, runJobs, serveJob } from "../parallel.ts";
import { type TaskName, tasks } from "../proof/starter/tasks.ts";
import { type Arm, arms, learn, learningRate, type PrecisionJob, type PrecisionResult } from "./learn.ts";
import { type PrecisionRecord, page, seeds, summary } from "./report.ts";

await serveJob(learn);

const { values: flags } = parseArgs({
  options: {
    arms: { type: "string", default: Object.keys(arms).join() },
    tasks: { type: "string", default: Object.keys(tasks).join() },
    seeds: { type: "string", default: seeds.join() },
    jobs: { type: "string" },
    minutes: { type: "string" },
    rows: { type: "string", default: ".fleet/precision.jsonl" },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});

function some<Name extends string>(text: string, all: object, flag: string): Name[] {
  const wrong = text.split(",").find((name) => !Object.hasOwn(all, name));
  if (wrong !== undefined) throw new Error(`${flag}: there is no "${wrong}". Valid: ${Object.keys(all).join(", ")}.`);
  return text.split(",") as Name[];
}

/** Seed by seed, so that a series cut short can be compared. */
function jobsOf(names: readonly TaskName[], which: readonly Arm[], of: readonly number[]): PrecisionJob[] {
  return of.flatMap((seed) => names.flatMap((task) => which.map((arm) => ({ task, arm, seed }))));
}
const settingsOf = ({ task, arm }: PrecisionJob) => ({
  ...{ task: tasks[task].title, arm: arms[arm], learningRate, defaults: defaultsStamp("grpo") },
});

const { rows, failed, left } = await runJobs<PrecisionJob, PrecisionResult>({
  jobs: jobsOf(
    some<TaskName>(flags.tasks, tasks, "--tasks"),
    some<Arm>(flags.arms, arms, "--arms"),
    flags.seeds.split(",").map(Number),
  ),
  settingsOf,
  file: flags.rows,
  ...(flags.jobs && { processes: Number(flags.jobs) }),
  ...(flags.minutes && { minutes: Number(flags.minutes) }),
  label: ({ task, arm, seed }) => `${task}, ${arm}, seed ${seed}`,
});
console.log(summary(rows).join("\n"));
for (const { job, message } of failed) console.log(`FAILED ${JSON.stringify(job)}: ${message}`);
if (left > 0) console.log(`${left} runs were not begun.`);
if (flags.write) write();
process.exitCode = failed.length > 0 ? 1 : 0;

function write(): void {
  const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));
  const kept = new Map(
    keptRows<PrecisionJob, PrecisionResult>(flags.rows, settingsOf).map((row) => [JSON.stringify(row.job), row]),
  );
  const jobs = jobsOf(Object.keys(tasks) as TaskName[], Object.keys(arms) as Arm[], seeds);
  const runs = jobs.flatMap((job) => {
    const row = kept.get(JSON.stringify(job));
    return row ? [{ job, result: row.result }] : [];
  });
  const record: PrecisionRecord = { machine: describeMachine(), learningRate, runs };
  writeFileSync(at("../results/precision.json"), `${JSON.stringify(record, null, 1)}\n`);
  writeFileSync(at("../../docs/results/precision.md"), page(record));
}

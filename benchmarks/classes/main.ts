/**
 * `npm run bench:classes`: does training lose a class of scenarios while the mean rises? shop.ts has the task, learn.ts the variants.
 * --variants NAME,NAME --seeds N,N --steps N (other seeds and steps than the page's: a trial, which is printed alone) --jobs N (processes at
 * once) --minutes N (start none after that) --no-write --rows FILE (where finished runs are kept, which are not made again; default
 * .fleet/classes.jsonl). The page is written from all that is kept.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { defaultsStamp, starterRate } from "../defaults.ts";
import { type JobRow, keptRows, runJobs, serveJob } from "../parallel.ts";
import { type ClassesJob, type ClassesResult, learnShop, type VariantName, variants } from "./learn.ts";
import { type Kept, page, seeds, summary } from "./report.ts";

await serveJob(learnShop);

const names = Object.keys(variants) as VariantName[];
const pageSeeds = [...seeds.unseen, ...seeds.seen];
const pageSteps = 100;

const { values: flags } = parseArgs({
  options: {
    variants: { type: "string", default: names.join() },
    seeds: { type: "string", default: pageSeeds.join() },
    steps: { type: "string", default: String(pageSteps) },
    jobs: { type: "string" },
    minutes: { type: "string" },
    rows: { type: "string", default: ".fleet/classes.jsonl" },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});
const asked = flags.variants.split(",").map((text) => {
  const name = names.find((one) => one === text);
  if (!name) throw new Error(`--variants: there is no "${text}". Valid: ${names.join(", ")}.`);
  return name;
});
const settingsOf = ({ variant }: ClassesJob) => ({
  ...{ task: "shop", options: variants[variant], defaults: defaultsStamp("grpo"), starterRate },
});

/** Variant by variant, so that a run cut short has whole ones. */
function jobsOf(of: readonly VariantName[], seeds: readonly number[], steps: number): ClassesJob[] {
  return of.flatMap((variant) => seeds.map((seed) => ({ variant, seed, steps })));
}

const { rows, failed, left } = await runJobs<ClassesJob, ClassesResult>({
  jobs: jobsOf(asked, flags.seeds.split(",").map(Number), Number(flags.steps)),
  settingsOf,
  file: flags.rows,
  ...(flags.jobs && { processes: Number(flags.jobs) }),
  ...(flags.minutes && { minutes: Number(flags.minutes) }),
  label: ({ variant, seed }) => `${variant}, seed ${seed}`,
});
console.log(summary(rows).join("\n"));
for (const { job, message } of failed) console.log(`FAILED ${JSON.stringify(job)}: ${message}`);
if (left > 0) console.log(`${left} runs were not begun.`);
if (flags.write) write();
process.exitCode = failed.length > 0 ? 1 : 0;

function write(): void {
  const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));
  const file = at("../results/classes.json");
  // What was tried before stays as it was: those runs were made by code that is gone.
  const { earlier, tuning } = JSON.parse(readFileSync(file, "utf8")) as Kept;
  const all: JobRow<ClassesJob, ClassesResult>[] = keptRows(flags.rows, settingsOf);
  const runs = jobsOf(names, pageSeeds, pageSteps).flatMap((job) => {
    const own = all.find((row) => JSON.stringify(row.job) === JSON.stringify(job));
    if (!own) return [];
    const { settings: _, ...run } = own;
    return [run];
  });
  const kept: Kept = { runs, earlier, tuning };
  writeFileSync(file, `${JSON.stringify(kept, null, 1)}\n`);
  writeFileSync(at("../../docs/results/classes.md"), page(kept));
}

/**
 * `npm run bench:tools`: agents that act. task.ts has the domains and the ways to learn them, plan.ts the runs.
 * --model FOLDER (in place of the starter model: an adapter is trained on it; whether it learns at all) --seeds N,N --quick (one seed, little of
 * everything: to see that it works; of the starter model nothing is written) --domains NAME,NAME --levels N,N --ways NAME,NAME (some of the runs) --jobs N (processes at once)
 * --minutes N (start no run after that) --rows FILE (where finished runs are kept, which are not made again; default .fleet/tools.jsonl)
 * --learnt FOLDER (where models are kept whose calls elsewhere are measured too) --dialogues FILE (dev.jsonl, plain or .xz, with tools.json beside it) --no-write --render (write the page from what is kept, run nothing).
 */
import { existsSync, writeFileSync } from "node:fs";
import { basename, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { type JobRow, keptRows, runJobs, serveJob } from "../parallel.ts";
import { dialoguesFile } from "./dialogues.ts";
import { labelOf, learnTools, type ToolsJob, type ToolsResult } from "./learn.ts";
import { isLearnt } from "./measures.ts";
import { jobsOf, pageSeeds, settingsOf, starter } from "./plan.ts";
import { plot } from "./plot.ts";
import { page, summary } from "./report.ts";
import { domains, ways } from "./task.ts";

await serveJob((job: ToolsJob) => learnTools(job));

const { values: flags } = parseArgs({
  options: {
    model: { type: "string" },
    seeds: { type: "string" },
    quick: { type: "boolean", default: false },
    domains: { type: "string", default: Object.keys(domains).join() },
    levels: { type: "string", default: "1,2,3" },
    ways: { type: "string", default: Object.keys(ways).join() },
    jobs: { type: "string" },
    minutes: { type: "string" },
    rows: { type: "string", default: ".fleet/tools.jsonl" },
    learnt: { type: "string", default: ".fleet/tools-models" },
    dialogues: { type: "string" },
    render: { type: "boolean", default: false },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});

function chosen(flag: string, text: string, valid: readonly string[]): string[] {
  const asked = text.split(",");
  const wrong = asked.find((word) => !valid.includes(word));
  if (wrong === undefined) return asked;
  throw new Error(`--${flag}: there is no "${wrong}". Valid: ${valid.join(", ")}.`);
}

const { quick } = flags;
if (flags.model !== undefined) {
  if (!existsSync(flags.model)) throw new Error(`--model: there is no ${flags.model}.`);
  process.env.STATESET_TOOLS_MODEL = resolve(flags.model);
}
if (flags.dialogues !== undefined) process.env.STATESET_TOOLS_DIALOGUES = resolve(flags.dialogues);
process.env.STATESET_TOOLS_LEARNT = resolve(flags.learnt);
// Asked early: a file that is not there should cost no run.
const hasDialogues = dialoguesFile() !== undefined;
const model = flags.model === undefined ? starter : basename(resolve(flags.model));
const seeds = flags.seeds?.split(",").map(Number) ?? (quick || model !== starter ? pageSeeds.slice(0, 1) : pageSeeds);
const asked = {
  domains: chosen("domains", flags.domains, Object.keys(domains)),
  levels: chosen("levels", flags.levels, ["1", "2", "3"]),
  ways: chosen("ways", flags.ways, Object.keys(ways)),
};

if (!flags.render) {
  const { rows, failed, left } = await runJobs<ToolsJob, ToolsResult>({
    jobs: jobsOf({ model, seeds, quick }).filter(
      ({ domain, level, way, dialogues }) =>
        (hasDialogues || !dialogues) &&
        asked.domains.includes(domain) &&
        asked.levels.includes(String(level)) &&
        asked.ways.includes(way),
    ),
    settingsOf,
    file: flags.rows,
    threads: model === starter ? 1 : 2,
    ...(flags.jobs && { processes: Number(flags.jobs) }),
    ...(flags.minutes && { minutes: Number(flags.minutes) }),
    label: labelOf,
  });
  console.log(summary(rows).join("\n"));
  for (const { job, message } of failed) console.log(`FAILED ${JSON.stringify(job)}: ${message}`);
  if (!hasDialogues) console.log("There are no dialogues to measure calls of: name their file with --dialogues FILE.");
  if (left > 0) console.log(`${left} runs were not begun.`);
  process.exitCode = failed.length > 0 ? 1 : 0;
}
if (flags.write && !(quick && model === starter)) write();

/** From all that is kept, and what results hold that was measured elsewhere under the settings of now. */
function write(): void {
  const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));
  const file = at("../results/tools.jsonl");
  const before = keptRows<ToolsJob, ToolsResult>(file, settingsOf);
  const own = keptRows<ToolsJob, ToolsResult>(flags.rows, settingsOf).filter(
    ({ job }) => !job.quick || job.model !== starter,
  );
  const all = new Map([...before, ...own].map((row) => [JSON.stringify(row.job), row]));
  const order = jobsOf({ model: starter, seeds: pageSeeds, quick: false }).map((job) => JSON.stringify(job));
  const placed = new Map(order.map((job, i) => [job, i]));
  const place = ({ job }: { job: ToolsJob }) => placed.get(JSON.stringify(job)) ?? order.length;
  const runs: JobRow<ToolsJob, ToolsResult>[] = [...all.values()]
    .filter((run) => run.job.model !== starter || place(run) < order.length)
    .sort((a, b) => place(a) - place(b));
  writeFileSync(file, runs.map((row) => `${JSON.stringify(row)}\n`).join(""));
  writeFileSync(at("../../docs/results/tools.md"), page(runs));
  writeFileSync(at("../../docs/images/tools.svg"), plot(runs.filter(isLearnt)));
}

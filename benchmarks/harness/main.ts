/**
 * `npm run proof:harness`: agents of two SDKs, trained through their own calls. One process a run (client, seed, sign).
 * --quick (little of everything: to see that it works; nothing is written) --jobs N (processes at once) --minutes N (start no run after that)
 * --rows FILE (where finished runs are kept, which are not made again; default .fleet/harness.jsonl) --no-write (keep the rows alone, as a bundle elsewhere must) --render (write the page from what is kept, run nothing).
 */
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { keptRows, runJobs, serveJob } from "../parallel.ts";
import { type ClientName, clients } from "./clients.ts";
import {
  full,
  type HarnessJob,
  type HarnessResult,
  labelOf,
  learnHarness,
  learningRate,
  maxTokens,
  small,
} from "./learn.ts";
import { page, verdicts } from "./report.ts";

await serveJob((job: HarnessJob) => learnHarness(job));

const { values: flags } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    jobs: { type: "string" },
    minutes: { type: "string" },
    rows: { type: "string", default: ".fleet/harness.jsonl" },
    write: { type: "boolean", default: true },
    render: { type: "boolean", default: false },
  },
  allowNegative: true,
});

const { quick } = flags;
const seeds = quick ? [41] : [41, 42, 43];
const mark = quick ? { quick: true as const } : {};
const jobs = (Object.keys(clients) as ClientName[]).flatMap((client): HarnessJob[] => [
  ...seeds.map((seed): HarnessJob => ({ client, seed, sign: 1, ...mark })),
  { client, seed: seeds[0]!, sign: -1, ...mark },
]);
const settingsOf = (job: HarnessJob) => ({ ...(job.quick ? small : full), learningRate, maxTokens });

if (!flags.render) {
  const { failed, left } = await runJobs<HarnessJob, HarnessResult>({
    ...{ jobs, settingsOf, file: flags.rows, threads: 1, label: labelOf },
    ...(flags.jobs && { processes: Number(flags.jobs) }),
    ...(flags.minutes && { minutes: Number(flags.minutes) }),
  });
  for (const { job, message } of failed) console.log(`FAILED ${labelOf(job)}: ${message}`);
  if (left > 0) console.log(`${left} runs were not begun.`);
  process.exitCode = failed.length > 0 ? 1 : 0;
}
const kept = keptRows<HarnessJob, HarnessResult>(flags.rows, settingsOf);
const rows = jobs.flatMap((own) => kept.find(({ job }) => JSON.stringify(job) === JSON.stringify(own)) ?? []);
const found = verdicts(rows);
console.log(found.map(({ text }) => text).join("\n"));
if (!quick && rows.length === jobs.length) {
  const write = (path: string, text: string) => writeFileSync(fileURLToPath(new URL(path, import.meta.url)), text);
  if (flags.write) {
    write("../results/harness.jsonl", rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
    write("../../docs/results/harness.md", page(rows));
  }
  if (found.some(({ shown }) => !shown)) process.exitCode = 1;
}

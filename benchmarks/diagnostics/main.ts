/**
 * Healthy runs and runs made ill: does the monitor tell them apart, how soon, and what does autoAdjust save?
 *
 *   npm run bench:diagnostics -- [--set proof|tuning|all] [--only NAME,NAME] [--jobs N] [--plain] [--json] [--no-write]
 *
 * --plain leaves the runs with autoAdjust out. Finished runs are kept in .fleet/diagnostics.jsonl and not run again.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { defaultsStamp } from "../defaults.ts";
import { describeMachine } from "../machine.ts";
import { runJobs, serveJob } from "../parallel.ts";
import { usual } from "./case.ts";
import { cases } from "./cases.ts";
import { pageOf, reportOf, summarise } from "./report.ts";
import { type Job, type RunResult, runCase } from "./run.ts";

await serveJob<Job, RunResult>(runCase);

const { values } = parseArgs({
  allowNegative: true,
  options: {
    set: { type: "string", default: "proof" },
    only: { type: "string" },
    jobs: { type: "string", default: "2" },
    plain: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    write: { type: "boolean", default: true },
  },
});
const only = values.only?.split(",");
for (const name of only ?? [])
  if (!Object.hasOwn(cases, name))
    throw new Error(`There is no case "${name}". Known: ${Object.keys(cases).join(", ")}.`);
if (!["proof", "tuning", "all"].includes(values.set))
  throw new Error(`--set is proof, tuning or all, not "${values.set}".`);

const names = Object.keys(cases).filter((name) =>
  only ? only.includes(name) : values.set === "all" || cases[name]!.set === values.set,
);
const { rows, failed } = await runJobs<Job, RunResult>({
  jobs: names.flatMap((name) =>
    (values.plain ? [false] : [false, true]).map((autoAdjust) => ({ case: name, autoAdjust })),
  ),
  settingsOf: ({ case: name }) => {
    const { seed, settings } = cases[name]!;
    return { usual, seed, settings, defaults: defaultsStamp(settings?.algorithm ?? "grpo") };
  },
  file: resolve(".fleet/diagnostics.jsonl"),
  processes: Number(values.jobs),
  label: (job) => `${job.case}${job.autoAdjust ? " with autoAdjust" : ""}`,
});
for (const { job, message } of failed) console.error(`${job.case}: ${message}`);
const reports = reportOf(rows);
const machine = rows[0]?.machine ?? describeMachine();
const summary = summarise(reports.filter(({ set }) => values.set === "all" || only || set === values.set));
if (values.json) console.log(JSON.stringify({ machine, summary, reports }, null, 2));
else {
  for (const one of reports) {
    const said = one.said.map(({ step, kind }) => `${kind} (${step})`).join(", ");
    const adjusted = one.adjusted ? `, with autoAdjust ${one.adjusted.after.toFixed(2)}` : "";
    const right = one.ill === (one.saidAt !== null);
    console.log(
      `${right ? " " : "!"} ${one.ill ? "ill    " : "healthy"} ${one.case.padEnd(20)} ${one.before.toFixed(2)} → ${one.after.toFixed(2)}${adjusted}  ${said}`,
    );
  }
  console.log(JSON.stringify(summary, null, 2));
}
if (values.write && !only && failed.length === 0) {
  mkdirSync(resolve("benchmarks/results"), { recursive: true });
  writeFileSync(
    resolve("benchmarks/results/diagnostics.json"),
    `${JSON.stringify({ machine, usual, summary, reports }, null, 2)}\n`,
  );
  if (values.set !== "tuning") writeFileSync(resolve("docs/results/diagnostics.md"), pageOf(reports, machine));
}
process.exitCode = failed.length > 0 ? 1 : 0;

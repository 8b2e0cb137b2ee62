/**
 * `npm run proof`: trains with every algorithm, and with the reward's sign flipped, a tiny model on letters and the starter model on three
 * tasks, and prints what came of it. Each training has a process of its own.
 * --part letters|starter, --only NAME (several: comma), --task NAME (of the starter's; likewise), --seeds N,N (others than the page's: a trial, nothing is written), --jobs N,
 * --rows FILE (where finished trainings are kept; default .fleet/proof.jsonl), --minutes N (start none after that),
 * --json (last line: one object), --no-write (leave results and docs alone), --render (train nothing; write the pages from what is kept),
 * --tune (the rates of SFT and GRPO, with the seeds for trying out).
 */
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { type FailedJob, type JobRow, keptRows, runJobs, serveJob } from "../parallel.ts";
import type { LettersJob, Measured } from "./measure.ts";
import {
  type Job,
  learners,
  lettersJobs,
  type Result,
  runJob,
  settingsOf,
  starterJobs,
  taskNames,
  tuningJobs,
} from "./plan.ts";
import { against, comparisons, table } from "./report.ts";
import { keptResults, type Letters, mergeLetters, mergeStarter, type Starter, write } from "./results.ts";
import { algorithms, baseline, seeds as defaultSeeds } from "./settings.ts";
import { learnerName, type StarterJob, type StarterResult } from "./starter/measure.ts";
import { learners as starterLearners } from "./starter/report.ts";
import type { TaskName } from "./starter/tasks.ts";
import { judgeStarter } from "./starter/verdict.ts";

await serveJob(runJob);

const { values: flags } = parseArgs({
  options: {
    part: { type: "string", default: "letters,starter" },
    only: { type: "string", default: learners.join(",") },
    task: { type: "string", default: taskNames.join(",") },
    seeds: { type: "string", default: defaultSeeds.join(",") },
    jobs: { type: "string" },
    rows: { type: "string", default: ".fleet/proof.jsonl" },
    minutes: { type: "string" },
    json: { type: "boolean", default: false },
    write: { type: "boolean", default: true },
    render: { type: "boolean", default: false },
    tune: { type: "boolean", default: false },
  },
  allowNegative: true,
});
const parts = choice("part", ["letters", "starter"] as const);
const names = choice("only", learners);
const which = choice("task", taskNames);
const seeds = flags.seeds.split(",").map((seed) => whole("seeds", seed));
const file = resolve(flags.rows);
const limits = {
  ...(flags.jobs !== undefined && { processes: whole("jobs", flags.jobs) }),
  ...(flags.minutes !== undefined && { minutes: whole("minutes", flags.minutes) }),
};
const say = (line: string) => console.error(line);

if (flags.tune) await tune();
else await prove();

async function prove(): Promise<void> {
  const wanted = { names, seeds };
  const own = {
    letters: parts.includes("letters") ? lettersJobs(wanted) : [],
    starter: parts.includes("starter") ? starterJobs(wanted, which) : [],
  };
  const ofLetters = await done<LettersJob, Measured>(own.letters);
  const ofStarter = await done<StarterJob, StarterResult>(own.starter);
  const trial = String(seeds) !== String(defaultSeeds);
  const kept = keptResults(trial);
  const letters = mergeLetters(kept.letters, ofLetters.rows);
  const starter = mergeStarter(kept.starter, ofStarter.rows);
  const left = ofLetters.left + ofStarter.left;
  if (flags.write && !trial) write(letters, starter);
  const failed = [
    ...[...ofLetters.failed, ...ofStarter.failed].map(({ job, message }) => `${label(job)} failed: ${message}`),
    ...(parts.includes("letters") ? lettersFailures(letters) : []),
    ...(parts.includes("starter") ? starterFailures(starter) : []),
    ...(left > 0 ? [`${left} trainings are left: the same command goes on with them.`] : []),
  ];
  for (const failure of failed) say(failure);
  if (failed.length > 0) process.exitCode = 1;
  if (flags.json) console.log(JSON.stringify(summary(letters, starter)));
}

async function done<J extends Job, R extends Result>(
  jobs: readonly J[],
): Promise<{ rows: JobRow<J, R>[]; failed: FailedJob<J>[]; left: number }> {
  if (!flags.render) return runJobs<J, R>({ jobs, settingsOf, file, label, say, ...limits });
  const asked = new Set(jobs.map((job) => JSON.stringify(job)));
  const rows = keptRows<J, R>(file, settingsOf).filter(({ job }) => asked.has(JSON.stringify(job)));
  return { rows, failed: [], left: 0 };
}

function lettersFailures({ verdicts: known }: Letters): string[] {
  const verdicts = Object.fromEntries(Object.entries(known).filter(([name]) => names.includes(name)));
  console.log(table(verdicts, known));
  const compared = comparisons(verdicts, known);
  if (compared) console.log(`\nAgainst SFT on best-of-N (share of right letters, 95% interval):\n\n${compared}\n`);
  return Object.entries(verdicts).flatMap(([name, { rises, falls }]) => [
    ...(rises && falls ? [] : [`${name} does not ${rises ? "fall" : "rise"} beyond noise on the letters`]),
    ...(name in algorithms && against(name, known)[baseline]?.verdict === "worse"
      ? [`${name} is worse than ${baseline} on the letters`]
      : []),
  ]);
}

function starterFailures({ runs }: Starter): string[] {
  return which.flatMap((task) =>
    starterLearners.flatMap((learner) => {
      const verdict = judgeStarter(runs, task, learner);
      if (!verdict || ("algorithm" in learner && !names.includes(learner.algorithm))) return [];
      const { before, after, pValue, rises, flipped } = verdict;
      const down = flipped ? `, flipped ${flipped.after.toFixed(3)} (p ${flipped.pValue.toFixed(4)})` : "";
      const name = `${task}, ${learnerName(learner)}`;
      console.log(`${name}: ${before.toFixed(3)} → ${after.toFixed(3)} (p ${pValue.toFixed(4)})${down}`);
      if (!("algorithm" in learner)) return [];
      return [
        ...(rises ? [] : [`${name} does not rise beyond noise`]),
        ...(flipped && !flipped.falls ? [`${name} does not fall beyond noise`] : []),
      ];
    }),
  );
}

function summary(letters: Letters, starter: Starter): unknown {
  const short = Object.entries(letters.verdicts).map(([name, { curve: _, flippedCurve: __, ...rest }]) => [
    name,
    { ...rest, against: against(name, letters.verdicts) },
  ]);
  const ofTask = (task: TaskName) =>
    starterLearners.flatMap((learner) => {
      const verdict = judgeStarter(starter.runs, task, learner);
      if (!verdict) return [];
      const { runs: _, ...rest } = verdict;
      return [[learnerName(learner), rest]];
    });
  return {
    letters: Object.fromEntries(short),
    ...(letters.clip && { clip: letters.clip }),
    starter: Object.fromEntries(taskNames.map((task) => [task, Object.fromEntries(ofTask(task))])),
  };
}

/** Every tuned learner at every rate: the mean over the seeds for trying out, in the starter part over its tasks too. */
async function tune(): Promise<void> {
  const jobs = tuningJobs();
  const scores = new Map<string, number[]>();
  const note = (key: string, score: number) => scores.set(key, [...(scores.get(key) ?? []), score]);
  if (parts.includes("letters")) {
    const { rows } = await done<LettersJob, Measured>(jobs.letters);
    for (const { job, result } of rows) note(`letters, ${job.learner} at ${job.rate}`, result.after.mean);
  }
  if (parts.includes("starter")) {
    const { rows } = await done<StarterJob, StarterResult>(jobs.starter);
    for (const { job, result } of rows) {
      const score = result.scenarios.reduce((sum, value) => sum + value, 0) / result.scenarios.length;
      note(`starter, ${nameAndRate(job)}`, score);
    }
  }
  for (const [key, found] of scores) {
    const mean = found.reduce((sum, score) => sum + score, 0) / found.length;
    console.log(`${key}: ${mean.toFixed(4)} over ${found.length} runs`);
  }
}

function label(job: Job): string {
  const { seed, sign } = job;
  const what = job.part === "letters" ? job.learner : `${job.task}, ${nameAndRate(job)}`;
  return `${what}, seed ${seed}${sign === 1 ? "" : ", flipped"}`;
}

function nameAndRate({ learner }: StarterJob): string {
  return `${learnerName(learner)}${learner.by === "best-of-n" || learner.by === "tuned" ? ` at ${learner.rate}` : ""}`;
}

function choice<T extends string>(flag: "part" | "only" | "task", valid: readonly T[]): T[] {
  const chosen = flags[flag].split(",");
  const unknown = chosen.find((name) => !(valid as readonly string[]).includes(name));
  if (unknown !== undefined) fail(`--${flag} ${unknown}: no such one. Valid: ${valid.join(", ")}.`);
  return chosen as T[];
}

function whole(flag: string, value: string): number {
  const number = Number(value);
  if (!Number.isInteger(number) || number < 1) fail(`--${flag} ${value} is not a whole number of at least 1.`);
  return number;
}

function fail(message: string): never {
  console.error(message);
  process.exit(2);
}

/**
 * `npm run bench:real`: a real pre-trained model. Is it the same model as elsewhere, does it learn, and what does that cost?
 * --model FILE.gguf|FOLDER|NAME (default: smollm2-135m, which is fetched; qwen2.5-coder-1.5b is too) --part parity|learn|memory|speed[,…] --quick (a look: little of
 * everything, nothing written) --task json|math[,…] --seeds N,N --steps N --tune (every variant with seed 1, on the scenarios for tuning)
 * --jobs N (processes at once, two threads each) --minutes N (start no run after that) --rows FILE (where finished runs are kept, which are not
 * made again; default .fleet/real.jsonl) --runs FOLDER (where running ones are kept, which go on after an interruption) --data FILE (of the
 * math task) --engine torch (of the part learn; on a GPU; its runs are not written into the page) --no-write. The other sides need STATESET_PYTHON (torch, transformers, peft, gguf, llama-cpp-python).
 */
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { defaultsStamp } from "../defaults.ts";
import { describeMachine, measureRoofline, rooflineText } from "../machine.ts";
import { keptRows, runJobs, serveJob } from "../parallel.ts";
import { asFolder } from "./as-folder.ts";
import { type LearnJob, type LearnResult, labelOf, learnReal } from "./learn.ts";
import { measureMemory, measureSpeed } from "./machine-costs.ts";
import { findModel, nameOf } from "./model.ts";
import { measureParity } from "./parity.ts";
import { type Kept, learningSection, type Measured, mainModel, page, type RealRun, summary } from "./report.ts";
import { type TaskName, tasks, type VariantName, variants } from "./task.ts";

await serveJob(learnReal);

const parts = ["parity", "learn", "memory", "speed"] as const;
const taskNames = Object.keys(tasks) as TaskName[];
const variantNames = Object.keys(variants) as VariantName[];
/** Settings were chosen with seed 1. */
const tuningSeed = 1;
const pageSeeds = [11, 12, 13];
const threads = 2;

const { values: flags } = parseArgs({
  options: {
    model: { type: "string" },
    part: { type: "string", default: parts.join() },
    task: { type: "string", default: taskNames.join() },
    seeds: { type: "string", default: pageSeeds.join() },
    steps: { type: "string" },
    tune: { type: "boolean", default: false },
    quick: { type: "boolean", default: false },
    jobs: { type: "string" },
    minutes: { type: "string" },
    rows: { type: "string", default: ".fleet/real.jsonl" },
    runs: { type: "string", default: ".fleet/real-runs" },
    data: { type: "string" },
    engine: { type: "string" },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});

function chosen<T extends string>(flag: string, text: string, valid: readonly T[]): T[] {
  return text.split(",").map((word) => {
    const name = valid.find((one) => one === word);
    if (!name) throw new Error(`--${flag}: there is no "${word}". Valid: ${valid.join(", ")}.`);
    return name;
  });
}

const asked = chosen("part", flags.part, parts);
const [engine] = flags.engine === undefined ? [] : chosen("engine", flags.engine, ["torch"]);
if (engine && asked.some((part) => part !== "learn")) throw new Error("--engine goes with --part learn alone.");
const model = await findModel(flags.model).catch((error: Error) => {
  console.error(error.message);
  process.exit(1);
});
const { quick } = flags;
process.env.STATESET_REAL_MODEL = engine ? await asFolder(model) : model;
process.env.STATESET_REAL_THREADS = String(threads);
process.env.STATESET_REAL_RUNS = resolve(flags.runs);
if (flags.data) process.env.STATESET_REAL_DATA = resolve(flags.data);

const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const resultsFile = at("../results/real.json");
const before: Kept = existsSync(resultsFile)
  ? (JSON.parse(readFileSync(resultsFile, "utf8")) as Kept)
  : { runs: [], tuning: [] };
const measured: Measured = {};
const about = { date: new Date().toISOString().slice(0, 10), model: nameOf(model), machine: describeMachine() };
console.log(`${about.model} on ${about.machine}`);
// What seconds and tokens a second are worth nothing without.
const roofline = measureRoofline();
if (roofline) console.log(rooflineText(roofline));
const stamp = { ...about, ...(roofline && { roofline }) };

for (const part of asked) {
  if (part === "learn") await learn();
  else {
    const result =
      part === "parity"
        ? { parity: { ...stamp, ...(await measureParity(model, quick)) } }
        : part === "speed"
          ? { speed: { ...stamp, ...measureSpeed(model, quick) } }
          : { memory: { ...stamp, ...measureMemory(model, quick) } };
    Object.assign(measured, result);
    console.log(JSON.stringify(result, null, 1));
  }
}
if (flags.write && !quick && !engine) {
  const { model: name } = stamp;
  const others = { ...before.others, ...(name !== mainModel && { [name]: { ...before.others?.[name], ...measured } }) };
  const own = name === mainModel ? measured : { others };
  const kept: Kept = { ...before, ...own, runs: learnt(false), tuning: learnt(true) };
  writeFileSync(resultsFile, `${JSON.stringify(kept, null, 1)}\n`);
  writeFileSync(at("../../docs/results/real.md"), page(kept));
}

function settingsOf({ task, variant }: LearnJob): unknown {
  const { title, maxTokens, options } = tasks[task];
  return { title, maxTokens, options, variant: variants[variant], defaults: defaultsStamp("grpo") };
}

/** The untrained model first, then seed by seed, so that what a run cut short has is whole; the reward's sign is flipped for the first seed. */
function jobs(): LearnJob[] {
  const common = {
    part: "learn",
    model: nameOf(model),
    ...(quick && { quick: true as const }),
    ...(engine && { engine }),
  } as const;
  const seeds = flags.tune ? [tuningSeed] : flags.seeds.split(",").map(Number);
  const tuning = flags.tune ? { tuning: true as const } : {};
  return chosen("task", flags.task, taskNames).flatMap((task): LearnJob[] => {
    const steps = Number(flags.steps ?? (quick ? 2 : tasks[task].options.steps));
    const one = { ...common, ...tuning, task, steps, sign: 1 as const };
    const untrained: LearnJob = { ...one, variant: "default", steps: 0, seed: 0 };
    if (flags.tune) return [untrained, ...variantNames.map((variant) => ({ ...one, variant, seed: tuningSeed }))];
    const { variant } = tasks[task];
    const right = seeds.map((seed): LearnJob => ({ ...one, variant, seed }));
    return [untrained, ...right, ...(quick ? [] : [{ ...right[0]!, sign: -1 as const }])];
  });
}

async function learn(): Promise<void> {
  const { rows, failed, left } = await runJobs<LearnJob, LearnResult>({
    jobs: jobs(),
    settingsOf,
    file: flags.rows,
    threads,
    roofline,
    ...(flags.jobs && { processes: Number(flags.jobs) }),
    ...(flags.minutes && { minutes: Number(flags.minutes) }),
    label: labelOf,
  });
  console.log(summary(rows).join("\n"));
  if (engine) console.log(learningSection(rows));
  for (const { job, message } of failed) console.log(`FAILED ${JSON.stringify(job)}: ${message}`);
  if (left > 0) console.log(`${left} runs were not begun.`);
  if (failed.length > 0) process.exitCode = 1;
}

/** All that is kept for the settings of now; what results hold of other models stays. */
function learnt(tuning: boolean): RealRun[] {
  const own = keptRows<LearnJob, LearnResult>(flags.rows, settingsOf)
    .filter(({ job }) => (job.tuning ?? false) === tuning && !job.quick && !job.engine)
    .map(({ settings: _, ...run }) => run);
  const known = new Set(own.map(({ job }) => JSON.stringify(job)));
  const old = (tuning ? before.tuning : before.runs).filter(({ job }) => !known.has(JSON.stringify(job)));
  return [...old, ...own];
}

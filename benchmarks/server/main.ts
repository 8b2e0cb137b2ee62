/**
 * `npm run bench:server`: what serving costs beside sampling, and how fast the server is beside others on the same weights, in one run.
 * --json (last line: each measure's value, null where its peer is missing), --only NAME[,…], --quick (a look: little of everything,
 * nothing written), --no-write. Peers: STATESET_PYTHON names a Python with `transformers[serving]`, STATESET_LLAMA a folder where
 * `npm install node-llama-cpp@3.22` was run; those that are missing are left out and said so.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { endlessStarter } from "../grpo/workload.ts";
import { describeMachine, machineKind, measureRoofline, rooflineText } from "../machine.ts";
import { keepRecord, readRecords } from "../results.ts";
import { type Measured, Missing, measures } from "./measures.ts";
import { page, row, type ServerRecord } from "./report.ts";

const { values: flags } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    only: { type: "string" },
    quick: { type: "boolean", default: false },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});

const names = flags.only?.split(",") ?? Object.keys(measures);
const unknown = names.find((name) => !Object.hasOwn(measures, name));
if (unknown !== undefined) {
  console.error(`--only ${unknown}: there is ${Object.keys(measures).join(", ")}.`);
  process.exit(2);
}

const machine = describeMachine();
const before = loadavg()[0]!;
const roofline = flags.quick ? undefined : measureRoofline();
console.log(machine);
if (roofline) console.log(rooflineText(roofline));
console.log(`The last minute's load was ${before.toFixed(1)}.`);

const folder = mkdtempSync(join(tmpdir(), "stateset-bench-server-"));
const model = await endlessStarter();
const results: Record<string, Measured> = {};
const missing: string[] = [];
try {
  const bench = {
    ...{ model, folder, quick: flags.quick, threads: availableParallelism() },
    ...{ python: process.env.STATESET_PYTHON, llama: process.env.STATESET_LLAMA },
  };
  for (const name of names) {
    try {
      results[name] = await measures[name]!.measure(bench);
      console.log(row(name, results[name]));
    } catch (error) {
      if (!(error instanceof Missing)) throw error;
      missing.push(name);
      console.log(`${name.padEnd(20)} left out: ${error.message}`);
    }
  }
} finally {
  for (const made of [folder, model]) rmSync(made, { recursive: true, force: true });
}

if (flags.write && !flags.quick) {
  const file = fileURLToPath(new URL("../results/server.json", import.meta.url));
  const kind = machineKind();
  // What was not measured this time stays, with its own date.
  const date = new Date().toISOString().slice(0, 10);
  const load = { before, after: loadavg()[0]! };
  const fresh = Object.entries(results).map(([name, result]) => [name, { ...result, date, load }]);
  const kept = readRecords<ServerRecord>(file)[kind]?.results;
  const all = keepRecord<ServerRecord>(file, kind, {
    ...{ machine, date, ...(roofline && { roofline }) },
    results: { ...kept, ...Object.fromEntries(fresh) },
  });
  writeFileSync(fileURLToPath(new URL("../../docs/results/server.md", import.meta.url)), page(all));
}
if (flags.json) {
  const value = (name: string) => [name, results[name]?.value ?? null];
  console.log(JSON.stringify(Object.fromEntries(names.map(value))));
}
if (missing.length > 0) console.error(`Not measured: ${missing.join(", ")}.`);

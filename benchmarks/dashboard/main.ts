/**
 * `npm run bench:dashboard`: what the dashboard takes with many long runs, beside TensorBoard, and what it costs the training that is watched.
 * --json (last line: each measure's value), --quick (few short runs: a look, nothing written), --no-write, --runs FOLDER (made before, by
 * make-runs.ts), --only PART (views, motion, against, live, listeners; several times for several): the others keep their numbers.
 * STATESET_PYTHON names a Python with tensorboard; without it that side is left out and said so, and the comparison on record stays.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { chromiumPath, launch } from "../../packages/dashboard/test/support/chromium.ts";
import { describeMachine, machineKind } from "../machine.ts";
import { keepRecord, readRecords } from "../results.ts";
import { makeManyRuns } from "./make-runs.ts";
import { full, measureAll, ofManyRuns, quick } from "./measure-all.ts";
import { merged } from "./merge.ts";
import { type DashboardRecord, linesOf, type Part, page, partNames, row } from "./report.ts";

const { values: flags } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    quick: { type: "boolean", default: false },
    only: { type: "string", multiple: true },
    runs: { type: "string" },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});

if (!chromiumPath) {
  console.error("There is no Chromium: install one, or name it by STATESET_CHROMIUM.");
  process.exit(2);
}
const isPart = (name: string): name is Part => (partNames as readonly string[]).includes(name);
const only: readonly Part[] = flags.only?.filter(isPart) ?? partNames;
const unknown = flags.only?.find((name) => !isPart(name));
if (unknown !== undefined) {
  console.error(`--only ${unknown}: there is no such part. There are ${partNames.join(", ")}.`);
  process.exit(2);
}
const file = fileURLToPath(new URL("../results/dashboard.json", import.meta.url));
const known = readRecords<DashboardRecord>(file)[machineKind()];
const writes = flags.write && !flags.quick;
if (writes && !known && only.length < partNames.length) {
  console.error(
    `${file} has no record of this kind of machine to put parts into: measure all once, or say --no-write.`,
  );
  process.exit(2);
}
const python = process.env.STATESET_PYTHON || undefined;
const size = flags.quick ? quick : full;
const machine = describeMachine();
const before = loadavg()[0]!;
console.log(`${machine}\nThe last minute's load was ${before.toFixed(1)}.`);
if (!python && only.includes("against"))
  console.log("TensorBoard is left out: STATESET_PYTHON names no Python that has it.");

const work = mkdtempSync(join(tmpdir(), "stateset-bench-dashboard-"));
const runs = flags.runs ?? join(work, "runs");
const browser = await launch();
try {
  if (!existsSync(runs) && only.some((part) => ofManyRuns.includes(part))) {
    mkdirSync(runs, { recursive: true });
    await makeManyRuns(runs, size);
    console.log(`${size.runs} runs of ${size.steps} steps are made.`);
  }
  const measured = await measureAll(browser, { runs, work }, size, { only, python, say: console.log });
  const lines = linesOf({ ...measured, overlaid: size.overlaid });
  for (const line of lines) console.log(row(line));
  const whole = {
    ...{ machine, date: new Date().toISOString().slice(0, 10), load: { before, after: loadavg()[0]! } },
    ...{ browser: browser.version(), runs: size.runs, steps: size.steps, overlaid: size.overlaid },
  };
  const record = merged(known, whole, measured);
  if (writes && record) {
    const all = keepRecord(file, machineKind(), record);
    writeFileSync(fileURLToPath(new URL("../../docs/results/dashboard.md", import.meta.url)), page(all));
  }
  if (flags.json) console.log(JSON.stringify(Object.fromEntries(lines.map(({ what, value }) => [what, value]))));
} finally {
  await browser.close();
  rmSync(work, { recursive: true, force: true });
}

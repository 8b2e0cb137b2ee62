/**
 * `npm run bench:dashboard`: what the dashboard takes with many long runs, beside TensorBoard, and what it costs the training that is watched.
 * --json (last line: each measure's value), --quick (few short runs: a look, nothing written), --no-write, --runs FOLDER (made before, by
 * make-runs.ts). STATESET_PYTHON names a Python with tensorboard; without it that side is left out and said so.
 */
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { chromiumPath, launch } from "../../packages/dashboard/test/support/chromium.ts";
import { describeMachine, machineKind } from "../machine.ts";
import { keepRecord } from "../results.ts";
import { makeManyRuns } from "./make-runs.ts";
import { full, measureAll, quick } from "./measure-all.ts";
import { type DashboardRecord, linesOf, page, row } from "./report.ts";

const { values: flags } = parseArgs({
  options: {
    json: { type: "boolean", default: false },
    quick: { type: "boolean", default: false },
    runs: { type: "string" },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});

if (!chromiumPath) {
  console.error("There is no Chromium: install one, or name it by STATESET_CHROMIUM.");
  process.exit(2);
}
const python = process.env.STATESET_PYTHON || undefined;
const size = flags.quick ? quick : full;
const machine = describeMachine();
const before = loadavg()[0]!;
console.log(`${machine}\nThe last minute's load was ${before.toFixed(1)}.`);
if (!python) console.log("TensorBoard is left out: STATESET_PYTHON names no Python that has it.");

const work = mkdtempSync(join(tmpdir(), "stateset-bench-dashboard-"));
const runs = flags.runs ?? join(work, "runs");
const browser = await launch();
try {
  if (!existsSync(runs)) {
    mkdirSync(runs, { recursive: true });
    await makeManyRuns(runs, size);
    console.log(`${size.runs} runs of ${size.steps} steps are made.`);
  }
  const measured = await measureAll(browser, { runs, work }, size, { python, say: console.log });
  const record: DashboardRecord = {
    ...{ machine, date: new Date().toISOString().slice(0, 10), load: { before, after: loadavg()[0]! } },
    ...{ browser: browser.version(), ...measured },
  };
  const lines = linesOf(record);
  for (const line of lines) console.log(row(line));
  if (flags.write && !flags.quick) {
    const file = fileURLToPath(new URL("../results/dashboard.json", import.meta.url));
    const all = keepRecord(file, machineKind(), record);
    writeFileSync(fileURLToPath(new URL("../../docs/results/dashboard.md", import.meta.url)), page(all));
  }
  if (flags.json) console.log(JSON.stringify(Object.fromEntries(lines.map(({ what, value }) => [what, value]))));
} finally {
  await browser.close();
  rmSync(work, { recursive: true, force: true });
}

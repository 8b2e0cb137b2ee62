/**
 * `npm run bench:engine [-- --json] [--shape <name>] [--save <file>]`: the engine against PyTorch and transformers, in one run, as ratios (above
 * 1: ours is better). The other side needs STATESET_PYTHON; without it our numbers are printed alone. Run it on a quiet machine.
 */
import { execFileSync } from "node:child_process";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { describeMachine, machineKind, measureRoofline, rooflineText } from "../machine.ts";
import { keepRecord } from "../results.ts";
import { type Measurements, type Metric, metrics, type ShapeName, shapes, work } from "./shapes.ts";

const { values: options } = parseArgs({
  options: { json: { type: "boolean" }, shape: { type: "string" }, save: { type: "string" } },
});
const python = process.env.STATESET_PYTHON;
const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));

function child(command: string, args: string[]): Measurements {
  const output = execFileSync(command, args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  return JSON.parse(output.trim().split("\n").at(-1)!) as Measurements;
}

const ours = (shape: ShapeName, mode: string) =>
  child(process.execPath, [here("./ours.mjs"), mode, JSON.stringify({ ...shapes[shape], work })]);
const peer = (shape: ShapeName, mode: string, threads: number) =>
  child(python!, [here("./peer.py"), shape, mode, String(threads), JSON.stringify(work)]);

/** The best that PyTorch reaches for each metric with any number of threads. */
function bestPeer(shape: ShapeName): Measurements {
  const cores = availableParallelism();
  const best: Measurements = {};
  for (const threads of [...new Set([1, 2, 4, 8, 16, cores])].filter((count) => count <= cores)) {
    for (const [metric, value] of Object.entries(peer(shape, "speed", threads)) as [Metric, number][]) {
      best[metric] = Math.max(best[metric] ?? 0, value);
    }
  }
  return { ...best, ...peer(shape, "memory", cores) };
}

const names = (Object.keys(shapes) as ShapeName[]).filter((name) => !options.shape || name === options.shape);
if (names.length === 0) throw new Error(`--shape must be one of ${Object.keys(shapes).join(", ")}.`);
const machine = describeMachine();
const roofline = measureRoofline();
console.log(machine);
if (roofline) console.log(rooflineText(roofline));
if (!python) console.log("STATESET_PYTHON is not set: our numbers alone, no comparison.");

const ratios: Record<string, Measurements> = {};
const measured: Record<string, { ours: Measurements; peer?: Measurements }> = {};
for (const name of names) {
  const mine: Measurements = { ...ours(name, "speed"), ...ours(name, "memory") };
  const theirs = python ? bestPeer(name) : undefined;
  measured[name] = { ours: mine, ...(theirs && { peer: theirs }) };
  ratios[name] = {};
  console.log(
    `\n${name}`.padEnd(16) + "ours".padStart(14) + (theirs ? "PyTorch".padStart(14) + "ratio".padStart(10) : ""),
  );
  for (const metric of metrics) {
    const [a, b] = [mine[metric]!, theirs?.[metric]];
    const show = (value: number) =>
      metric === "peakMemory" ? `${(value / 2 ** 20).toFixed(0)} MiB` : `${value.toFixed(value < 100 ? 1 : 0)} tok/s`;
    const ratio = b === undefined ? undefined : metric === "peakMemory" ? b / a : a / b;
    if (ratio !== undefined) ratios[name][metric] = Number(ratio.toFixed(3));
    const other = b === undefined ? "" : show(b).padStart(14) + `${ratio!.toFixed(2)}×`.padStart(10);
    console.log(`  ${metric}`.padEnd(15) + show(a).padStart(14) + other);
  }
}
if (options.save) {
  const date = new Date().toISOString().slice(0, 10);
  keepRecord(options.save, machineKind(), { machine, date, ...(roofline && { roofline }), work, ratios, measured });
}
if (options.json) console.log(JSON.stringify(ratios));

/**
 * `npm run bench:engine [-- --json] [--shape <name>] [--part <names>] [--rounds <n>] [--save <file>] [--check]`: the engine against PyTorch and transformers,
 * in one run, as ratios (above 1: ours is better). The other side needs STATESET_PYTHON; without it our numbers are printed alone. Run it on a quiet
 * machine, or in several rounds: the sides take turns, and the best of each counts.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { describeMachine, machineKind, measureRoofline, rooflineText } from "../machine.ts";
import { compareWithCommitted, requirePeer } from "../regressions.ts";
import { keepRecord } from "../results.ts";
import { cite, type EngineRecord, flatRatios, rowsTable } from "./report.ts";
import { type Measurements, type Metric, type PartName, parts, rival, type ShapeName, shapes, work } from "./shapes.ts";

const { values: options } = parseArgs({
  options: {
    json: { type: "boolean" },
    shape: { type: "string" },
    part: { type: "string" },
    rounds: { type: "string", default: "1" },
    save: { type: "string" },
    check: { type: "boolean", default: false },
  },
});
const wanted = (options.part?.split(",") ?? Object.keys(parts)) as PartName[];
if (!wanted.every((part) => Object.hasOwn(parts, part))) {
  throw new Error(`--part must be some of ${Object.keys(parts).join(",")}.`);
}
if (options.part && options.save) throw new Error("--save keeps a record of all parts: leave out --part.");
const rounds = Number(options.rounds);
if (!(Number.isInteger(rounds) && rounds > 0)) throw new Error("--rounds must be a whole number from 1 on.");
const python = process.env.STATESET_PYTHON;
requirePeer(options.check, python);
const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));

function child(command: string, args: string[]): Measurements {
  const output = execFileSync(command, args, { encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
  return JSON.parse(output.trim().split("\n").at(-1)!) as Measurements;
}

const ours = (shape: ShapeName, which: string) =>
  child(process.execPath, [here("./ours.mjs"), which, JSON.stringify({ ...shapes[shape], work })]);
const peer = (shape: ShapeName, which: string, threads: number) =>
  child(python!, [here("./peer.py"), shape, which, String(threads), JSON.stringify(work)]);

const isMemory = (metric: Metric) => metric.startsWith("peakMemory");

/** The better of both, metric by metric. */
function better(a: Measurements, b: Measurements): Measurements {
  const best = { ...a };
  for (const [metric, value] of Object.entries(b) as [Metric, number][]) {
    const before = best[metric] ?? value;
    best[metric] = isMemory(metric) ? Math.min(before, value) : Math.max(before, value);
  }
  return best;
}

/** Memory has processes of its own: speed is measured in one for each number of threads, of which the best counts. */
function measure(
  run: (which: string, threads: number) => Measurements,
  threadCounts: readonly number[],
  asked: readonly PartName[] = wanted,
): Measurements {
  const memory = (["memory", "moments"] as const).filter((part) => asked.includes(part));
  const speed = asked.filter((part) => !memory.some((other) => other === part)).join(",");
  let best: Measurements = {};
  if (speed) for (const threads of threadCounts) best = better(best, run(speed, threads));
  for (const part of memory) best = { ...best, ...run(part, threadCounts.at(-1)!) };
  return best;
}

const cores = availableParallelism();
/** PyTorch is not always fastest with all of them. */
const threadCounts = [...new Set([1, 2, 4, 8, 16, cores])].filter((count) => count <= cores).sort((a, b) => a - b);

const names = (Object.keys(shapes) as ShapeName[]).filter((name) => !options.shape || name === options.shape);
if (names.length === 0) throw new Error(`--shape must be one of ${Object.keys(shapes).join(", ")}.`);
const machine = describeMachine();
const roofline = measureRoofline();
console.log(machine);
if (roofline) console.log(rooflineText(roofline));
if (!python) console.log("STATESET_PYTHON is not set: our numbers alone, no comparison.");

const ratios: Record<string, Measurements> = {};
const measured: EngineRecord["measured"] = {};
/** Nobody is compared with ours by rows. */
const compared = wanted.filter((part) => part !== "rows");
/** There all moments are f32, and nothing is kept of sampling. */
const theirPart = (part: PartName): PartName => (part === "moments" ? "memory" : part === "reused" ? "train" : part);
const theirParts = [...new Set(compared.map(theirPart))];
for (const name of names) {
  let mine: Measurements = {};
  let theirs: Measurements | undefined;
  for (let round = 0; round < rounds; round++) {
    mine = better(
      mine,
      measure((which) => ours(name, which), [cores]),
    );
    if (python)
      theirs = better(
        theirs ?? {},
        measure((which, threads) => peer(name, which, threads), threadCounts, theirParts),
      );
  }
  measured[name] = { ours: mine, ...(theirs && { peer: theirs }) };
  ratios[name] = {};
  console.log(
    `\n${name}`.padEnd(16) + "ours".padStart(14) + (theirs ? "PyTorch".padStart(14) + "ratio".padStart(10) : ""),
  );
  for (const metric of compared.flatMap((part): readonly Metric[] => parts[part])) {
    const [a, b] = [mine[metric]!, theirs && rival(metric, theirs)];
    const show = (value: number) =>
      isMemory(metric) ? `${(value / 2 ** 20).toFixed(0)} MiB` : `${value.toFixed(value < 100 ? 1 : 0)} tok/s`;
    const ratio = b === undefined ? undefined : isMemory(metric) ? b / a : a / b;
    if (ratio !== undefined) ratios[name][metric] = Number(ratio.toFixed(3));
    const other = b === undefined ? "" : show(b).padStart(14) + `${ratio!.toFixed(2)}×`.padStart(10);
    console.log(`  ${metric}`.padEnd(15) + show(a).padStart(14) + other);
  }
}
const rows = rowsTable(measured);
if (rows) console.log(`\nTokens a second by rows of a step; in brackets how often that of f32\n${rows}`);
if (options.save) {
  const date = new Date().toISOString().slice(0, 10);
  const record: EngineRecord = { machine, date, ...(roofline && { roofline }), work, ratios, measured };
  const records = keepRecord(options.save, machineKind(), record);
  if (resolve(options.save) === here("../results/engine.json")) {
    const readme = here("./README.md");
    writeFileSync(readme, cite(readFileSync(readme, "utf8"), records));
  }
}
if (python) {
  const compare = { check: options.check };
  compareWithCommitted<EngineRecord>(
    here("../results/engine.json"),
    machineKind(),
    flatRatios,
    flatRatios({ ratios }),
    compare,
  );
}
if (options.json) console.log(JSON.stringify(ratios));

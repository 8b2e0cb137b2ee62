/**
 * `npm run proof`: trains a tiny model with every algorithm, and with the reward's sign flipped, and prints what came of it.
 * --only NAME (several: comma), --seeds N, --json (last line: one object), --no-write (leave results and docs alone).
 * Results are kept in benchmarks/results/proof.json, so that a run with --only renews its own rows of the page.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { parseArgs } from "node:util";
import type { MetricName, Metrics } from "stateset-agents/telemetry";
import { describeMachine } from "../machine.ts";
import { byBestOfN, byReinforcement, type Measured, measure } from "./measure.ts";
import { plot } from "./plot.ts";
import { against, comparisons, page, table } from "./report.ts";
import { algorithms, baseline, baselines, settings } from "./settings.ts";
import { judge, type Verdict } from "./verdict.ts";

export interface ClipResult {
  clipped: { clipFraction: number; approxKl: number };
  unclipped: { approxKl: number };
}

const { values: flags } = parseArgs({
  options: {
    only: { type: "string" },
    seeds: { type: "string", default: "3" },
    json: { type: "boolean", default: false },
    write: { type: "boolean", default: true },
  },
  allowNegative: true,
});
const seeds = Array.from({ length: Number(flags.seeds) }, (_, i) => i + 1);
if (!(seeds.length >= 1)) fail(`--seeds ${flags.seeds} is not a number of at least 1.`);
const learners = {
  ...Object.fromEntries(Object.entries(algorithms).map(([name, a]) => [name, byReinforcement(a)])),
  ...Object.fromEntries(Object.entries(baselines).map(([name, harvesting]) => [name, byBestOfN(harvesting)])),
};
const wanted = flags.only?.split(",") ?? Object.keys(learners);
const file = new URL("../results/proof.json", import.meta.url);
const unknown = wanted.find((name) => !Object.hasOwn(learners, name));
if (unknown !== undefined) fail(`--only ${unknown}: no such algorithm. Valid: ${Object.keys(learners).join(", ")}.`);

const say = (text: string) => console.error(text);
const verdicts: Record<string, Verdict> = {};
for (const name of wanted) {
  const learn = learners[name]!;
  const right: Measured[] = [];
  const flipped: Measured[] = [];
  for (const seed of seeds) {
    right.push(await measure(learn, seed, 1));
    flipped.push(await measure(learn, seed, -1));
  }
  const verdict = judge(right, flipped);
  verdicts[name] = verdict;
  if (flags.write) keep({ verdicts: { [name]: verdict } });
  const { before, after, flipped: down, seconds } = verdict;
  say(
    `${name.padEnd(18)} ${before.toFixed(3)} → ${after.toFixed(3)}, flipped ${down.toFixed(3)} (${seconds.toFixed(1)} s a run)`,
  );
}
const clip = flags.only === undefined || wanted.includes("grpo") ? await clipComparison() : undefined;

if (clip && flags.write) keep({ verdicts: {}, clip });

// What is compared with but not measured now is taken from the kept results.
const known = { ...kept().verdicts, ...verdicts };
console.log(table(verdicts, known));
const compared = comparisons(verdicts, known);
if (compared) console.log(`\nAgainst SFT on best-of-N (share of right letters, 95% interval):\n\n${compared}`);
if (clip) {
  const { clipped, unclipped } = clip;
  console.log(
    `\nFour passes a rollout: clip fraction ${clipped.clipFraction.toFixed(4)}, KL ${clipped.approxKl.toFixed(5)} with the clip, ${unclipped.approxKl.toFixed(5)} without.`,
  );
}
if (flags.json) {
  const short = Object.entries(verdicts).map(([name, { curve: _, flippedCurve: __, ...rest }]) => [
    name,
    { ...rest, against: against(name, known), ...(name === "grpo" && clip && { clip }) },
  ]);
  console.log(JSON.stringify(Object.fromEntries(short)));
}
const failed = Object.entries(verdicts).flatMap(([name, { rises, falls }]) => [
  ...(rises && falls ? [] : [`${name} does not ${rises ? "fall" : "rise"} beyond noise`]),
  ...(name in algorithms && against(name, known)[baseline]?.verdict === "worse"
    ? [`${name} is worse than ${baseline}`]
    : []),
]);
for (const failure of failed) say(failure);
if (failed.length > 0) process.exitCode = 1;

interface Kept {
  settings: unknown;
  verdicts: Record<string, Verdict>;
  clip?: ClipResult;
}

/** The committed results, unless they were measured with other settings. */
function kept(): Kept {
  const none: Kept = { settings, verdicts: {} };
  if (!existsSync(file)) return none;
  const found = JSON.parse(readFileSync(file, "utf8")) as Kept;
  return JSON.stringify(found.settings) === JSON.stringify(settings) ? found : none;
}

/** Adds to the committed results and renders the page and the plot from all of them. */
function keep(fresh: Pick<Kept, "verdicts" | "clip">): void {
  const docs = new URL("../../docs/", import.meta.url);
  const before = kept();
  const found = { ...before.verdicts, ...fresh.verdicts };
  const ordered = Object.keys(learners).flatMap((name) => (found[name] ? [[name, found[name]] as const] : []));
  const all: Kept = { ...before, ...fresh, verdicts: Object.fromEntries(ordered) };
  mkdirSync(new URL(".", file), { recursive: true });
  mkdirSync(new URL("images/", docs), { recursive: true });
  const machine = describeMachine();
  writeFileSync(file, `${JSON.stringify({ ...all, machine }, rounded)}\n`);
  writeFileSync(new URL("proof.md", docs), page(all.verdicts, all.clip, machine));
  writeFileSync(new URL("images/proof.svg", docs), plot(all.verdicts));
}

function rounded(_: string, value: unknown): unknown {
  return typeof value === "number" ? Number(value.toPrecision(5)) : value;
}

/** GRPO with four passes over every rollout, with and without its clip. */
async function clipComparison(): Promise<ClipResult> {
  const means = async (epsilonLow: number, epsilonHigh: number) => {
    const learn = byReinforcement({ algorithm: "grpo", epsilonLow, epsilonHigh }, { updatesPerRollout: 4 });
    const metrics: Metrics[] = [];
    for (const seed of seeds) metrics.push((await measure(learn, seed, 1)).metrics);
    const mean = (name: MetricName) => metrics.reduce((sum, one) => sum + one[name]!, 0) / metrics.length;
    return { clipFraction: mean("clipFraction"), approxKl: mean("approxKl") };
  };
  return { clipped: await means(0.2, 0.2), unclipped: await means(0.9999, 1e6) };
}

function fail(message: string): never {
  console.error(message);
  process.exit(2);
}

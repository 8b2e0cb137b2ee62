/** Ratios beside those committed for the same kind of machine: what has become worse is said, a line each. */
import { execFileSync } from "node:child_process";
import { basename, dirname } from "node:path";
import type { MachineRecord, Records } from "./results.ts";

/** By the name of what was measured; above 1, ours is better. */
export type Ratios = Readonly<Record<string, number>>;

export interface Regression {
  metric: string;
  before: number;
  now: number;
}

/** What runs of the same code differ by, and a little. */
const allowed = 0.15;

/** Ratios that are worse by more than that. What one of the two has not measured is left out. */
export function regressionsOf(before: Ratios, now: Ratios): Regression[] {
  return Object.entries(now).flatMap(([metric, ratio]) => {
    const earlier = before[metric];
    return earlier !== undefined && ratio < earlier * (1 - allowed) ? [{ metric, before: earlier, now: ratio }] : [];
  });
}

/** In words, the first line saying what it was compared with. */
export function comparison<R extends MachineRecord>(
  committed: Records<R>,
  kind: string,
  ratiosOf: (record: R) => Ratios,
  now: Ratios,
): { lines: string[]; worse: Regression[] } {
  const record = committed[kind];
  if (!record)
    return { lines: [`No results of this kind of machine (${kind}) are committed to compare with.`], worse: [] };
  const before = ratiosOf(record);
  const shared = Object.keys(now).filter((metric) => before[metric] !== undefined);
  const worse = regressionsOf(before, now);
  const found = `Worse by more than ${100 * allowed}% than what is committed for this kind of machine (${record.date}): ${worse.length} of ${shared.length} ratios`;
  const line = ({ metric, before, now }: Regression) =>
    `  ${metric}: ${before.toFixed(2)}× before, ${now.toFixed(2)}× now (${(100 * (now / before - 1)).toFixed(0)}%)`;
  return { lines: [worse.length === 0 ? `${found}.` : `${found}:`, ...worse.map(line)], worse };
}

/** Says it, and with `check` ends in exit code 1 where something is worse. Also right after the run has written the file anew. */
export function compareWithCommitted<R extends MachineRecord>(
  file: string,
  kind: string,
  ratiosOf: (record: R) => Ratios,
  now: Ratios,
  { check }: { check: boolean },
): void {
  const { lines, worse } = comparison(committedRecords<R>(file), kind, ratiosOf, now);
  console.log(`\n${lines.join("\n")}`);
  if (check && worse.length > 0) process.exitCode = 1;
}

/** A check without the other side would have nothing to check. */
export function requirePeer(check: boolean, python: string | undefined): void {
  if (check && !python)
    throw new Error("--check compares ratios: name a Python with the other side in STATESET_PYTHON.");
}

/** As the last commit has them: the file itself holds what the last run found. None where there is no repository; git says why. */
function committedRecords<R extends MachineRecord>(file: string): Records<R> {
  const show = ["show", `HEAD:./${basename(file)}`];
  try {
    const text = execFileSync("git", show, { cwd: dirname(file), encoding: "utf8", maxBuffer: 1 << 28 });
    return JSON.parse(text) as Records<R>;
  } catch {
    return {};
  }
}

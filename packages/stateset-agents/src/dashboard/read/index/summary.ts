/** What lists of runs say of a run's numbers; it stands in the head of its index. */
import type { NumberColumn, NumberTable } from "./number-table.ts";
import { Pyramid } from "./pyramid.ts";

export interface IndexSummary {
  /** The last step that has numbers. */
  step: number;
  metrics: { name: string; count: number; last: number | null }[];
  curve: { metric: "reward" | "loss"; points: (number | null)[] };
  tokensPerSecond: number | null;
  time: { rolloutMs: number; updateMs: number; otherMs: number };
}

const curvePoints = 60;
/** Steps whose speed is told. */
const recentSteps = 10;

export function summaryOf({ metrics, timing }: { metrics: NumberTable; timing: NumberTable }): IndexSummary {
  const metric = metrics.get("reward") ? "reward" : "loss";
  return {
    step: metrics.lastStep,
    metrics: metrics.columns.map(({ name, count, last }) => ({ name, count, last: finite(last) })),
    curve: { metric, points: curveOf(metrics.get(metric), metrics.rows) },
    tokensPerSecond: recentMean(timing.get("tokensPerSecond"), timing.rows),
    time: {
      rolloutMs: sumOf(timing.get("rolloutMs"), timing.rows),
      updateMs: sumOf(timing.get("updateMs"), timing.rows),
      otherMs: sumOf(timing.get("otherMs"), timing.rows),
    },
  };
}

function curveOf(column: NumberColumn | undefined, rows: number): (number | null)[] {
  if (!column || column.count === 0) return [];
  const from = column.firstRow;
  const span = Math.ceil((rows - from) / curvePoints);
  const { mean, count } = new Pyramid(column).over(from, rows, span, rows);
  return [...mean].filter((_, i) => count[i]! > 0).map(finite);
}

function recentMean(column: NumberColumn | undefined, rows: number): number | null {
  if (!column) return null;
  let [sum, count] = [0, 0];
  for (let row = rows - 1; row >= 0 && count < recentSteps; row--) {
    if (!column.has(row) || !Number.isFinite(column.values[row])) continue;
    sum += column.values[row]!;
    count++;
  }
  return count === 0 ? null : sum / count;
}

/** Clocks that were put back make no time negative. */
function sumOf(column: NumberColumn | undefined, rows: number): number {
  let sum = 0;
  for (let row = 0; column && row < rows; row++)
    if (column.values[row]! > 0 && column.has(row)) sum += column.values[row]!;
  return sum;
}

const finite = (value: number) => (Number.isFinite(value) ? value : null);

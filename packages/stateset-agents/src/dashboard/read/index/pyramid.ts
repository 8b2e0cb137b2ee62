/** Least, greatest and mean of a column by runs of 16, 256, … rows, so that a long curve is drawn from few numbers. */
import type { NumberColumn } from "./number-table.ts";

const factor = 16;

/** One entry a bucket. A bucket without a number has count 0; one whose numbers are not finite has NaN. */
export interface Buckets {
  min: Float32Array;
  max: Float32Array;
  mean: Float32Array;
  /** Finite numbers, and rows that have one at all. */
  finite: Int32Array;
  count: Int32Array;
}

/** Made of a column when it is asked for; rows that came since are added. */
export class Pyramid {
  readonly #column: NumberColumn;
  readonly #levels: Buckets[] = [];
  #rows = 0;

  constructor(column: NumberColumn) {
    this.#column = column;
  }

  /** Buckets of `span` rows over [from, to), both multiples of it but for the end of the column. */
  over(from: number, to: number, span: number, rows: number): Buckets {
    this.#catchUp(rows);
    let level = 0;
    while (span % factor ** (level + 1) === 0 && this.#levels[level]) level++;
    const unit = factor ** level;
    const count = Math.ceil((to - from) / span);
    const buckets = emptyBuckets(count);
    for (let i = 0; i < count; i++) {
      const first = from + i * span;
      const last = Math.min(first + span, to);
      if (level === 0) addRows(buckets, i, this.#column, first, last);
      else addBuckets(buckets, i, this.#levels[level - 1]!, first / unit, Math.ceil(last / unit));
    }
    return buckets;
  }

  #catchUp(rows: number): void {
    if (rows === this.#rows) return;
    // The last bucket of a level may have been begun.
    for (let level = 0, span = factor; span < rows; level++, span *= factor) {
      const made = this.#levels[level] ?? emptyBuckets(0);
      const kept = Math.floor(this.#rows / span);
      const buckets = grown(made, kept, Math.ceil(rows / span));
      for (let i = kept; i < buckets.count.length; i++) {
        const [first, last] = [i * span, Math.min(rows, (i + 1) * span)];
        if (level === 0) addRows(buckets, i, this.#column, first, last);
        else addBuckets(buckets, i, this.#levels[level - 1]!, i * factor, Math.ceil((last * factor) / span));
      }
      this.#levels[level] = buckets;
    }
    this.#rows = rows;
  }
}

function emptyBuckets(count: number): Buckets {
  const [min, max, mean] = [0, 1, 2].map(() => new Float32Array(count).fill(Number.NaN)) as [
    Float32Array,
    Float32Array,
    Float32Array,
  ];
  return { min, max, mean, finite: new Int32Array(count), count: new Int32Array(count) };
}

function grown(old: Buckets, kept: number, count: number): Buckets {
  const buckets = emptyBuckets(count);
  for (const name of ["min", "max", "mean", "finite", "count"] as const) buckets[name].set(old[name].subarray(0, kept));
  return buckets;
}

function addRows(to: Buckets, i: number, column: NumberColumn, first: number, last: number): void {
  const { values } = column;
  let [low, high, sum, finite, count] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, 0, 0];
  for (let row = first; row < last; row++) {
    if (!column.has(row)) continue;
    count++;
    const value = values[row]!;
    if (!Number.isFinite(value)) continue;
    finite++;
    sum += value;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  put(to, i, low, high, sum, finite, count);
}

function addBuckets(to: Buckets, i: number, from: Buckets, first: number, last: number): void {
  let [low, high, sum, finite, count] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, 0, 0, 0];
  for (let b = first; b < last; b++) {
    count += from.count[b]!;
    if (from.finite[b] === 0) continue;
    finite += from.finite[b]!;
    sum += from.mean[b]! * from.finite[b]!;
    low = Math.min(low, from.min[b]!);
    high = Math.max(high, from.max[b]!);
  }
  put(to, i, low, high, sum, finite, count);
}

function put(to: Buckets, i: number, low: number, high: number, sum: number, finite: number, count: number): void {
  to.count[i] = count;
  to.finite[i] = finite;
  if (finite === 0) return;
  to.min[i] = low;
  to.max[i] = high;
  to.mean[i] = sum / finite;
}

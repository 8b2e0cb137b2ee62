import { describe, expect, it } from "vitest";
import { createRandom } from "../../../random.ts";
import { NumberColumn } from "./number-table.ts";
import { Pyramid } from "./pyramid.ts";

/** With gaps, and now and then no number. */
function columnOf(rows: number): NumberColumn {
  const random = createRandom(rows);
  const column = new NumberColumn("x");
  column.reserve(rows);
  for (let row = 0; row < rows; row++) {
    if (random.next() < 0.2) continue;
    column.values[row] = random.next() < 0.05 ? Number.NaN : random.next() - 0.5;
    column.present[row >> 3]! |= 1 << (row & 7);
  }
  return column;
}

function plainly(column: NumberColumn, from: number, to: number) {
  const values = Array.from({ length: to - from }, (_, i) => from + i)
    .filter((row) => column.has(row))
    .map((row) => column.values[row]!);
  const finite = values.filter(Number.isFinite);
  return {
    count: values.length,
    finite: finite.length,
    min: Math.min(...finite),
    max: Math.max(...finite),
    mean: finite.reduce((a, b) => a + b, 0) / finite.length,
  };
}

describe("the pyramid of a column", () => {
  it("gives the least, greatest and mean of every bucket as adding them up does", () => {
    for (const rows of [5, 100, 3000, 5000]) {
      const column = columnOf(rows);
      for (const span of [1, 3, 16, 48, 256, 512]) {
        const buckets = new Pyramid(column).over(0, rows, span, rows);
        for (const [i, count] of buckets.count.entries()) {
          const expected = plainly(column, i * span, Math.min(rows, (i + 1) * span));
          expect([count, buckets.finite[i]]).toEqual([expected.count, expected.finite]);
          if (expected.finite === 0) {
            expect(buckets.mean[i]).toBeNaN();
            continue;
          }
          expect([buckets.min[i], buckets.max[i]]).toEqual([expected.min, expected.max]);
          expect(buckets.mean[i]).toBeCloseTo(expected.mean, 5);
        }
      }
    }
  });

  it("grows with its column", () => {
    const column = columnOf(5000);
    const grown = new Pyramid(column);
    for (const rows of [10, 300, 301, 4096, 5000]) {
      const whole = Math.ceil(rows / 16) * 16;
      expect(grown.over(0, Math.min(whole, rows), 16, rows)).toEqual(
        new Pyramid(column).over(0, Math.min(whole, rows), 16, rows),
      );
    }
  });
});

import { describe, expect, it } from "vitest";
import { createRandom } from "../../../random.ts";
import { NumberTable } from "./number-table.ts";
import { LineScanner } from "./scan-lines.ts";

function scanned(text: string, pieces = text.length) {
  const table = new NumberTable();
  const problems: string[] = [];
  const scanner = new LineScanner(table, (line, message) => problems.push(`${line} ${message}`));
  const bytes = new TextEncoder().encode(text);
  let from = 0;
  for (let to = pieces; from < bytes.length && to <= bytes.length + pieces; to += pieces)
    from = scanner.scan(bytes, from, Math.min(to, bytes.length));
  return { table, problems, lines: scanner.lines, read: from };
}

/** What JSON.parse makes of the same. */
function parsed(text: string): Record<string, number | null>[] {
  return text.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Record<string, number | null>]));
}

function expectSame(text: string, { table }: { table: NumberTable }) {
  const records = parsed(text);
  expect(table.rows).toBe(records.length);
  for (const [row, { step, ...numbers }] of records.entries()) {
    expect(table.steps[row]).toBe(step);
    const had = table.columns.filter((column) => column.has(row)).map(({ name }) => name);
    expect(had.sort()).toEqual(Object.keys(numbers).sort());
    for (const [name, value] of Object.entries(numbers))
      expect([name, table.get(name)!.values[row]]).toEqual([name, Math.fround(value ?? Number.NaN)]);
  }
}

describe("lines of numbers", () => {
  it("are read as JSON.parse and rounding to float32 read them, whatever the digits", () => {
    const random = createRandom(3);
    const odd = [0, -0, 1, -1, 1e-7, 1.5e300, -3.4028235677973366e38, 1e22, 1e23, 5e-324, 123456789012, 0.1 + 0.2];
    // Halfway between two numbers of float32, and next to it.
    const halves = [1 + 2 ** -24, 1 + 2 ** -24 + 2 ** -52, 1 + 2 ** -24 - 2 ** -53, 16777217, 16777219];
    const drawn = () => (random.next() - 0.5) * 10 ** Math.floor(random.next() * 40 - 20);
    const lines = Array.from({ length: 3000 }, (_, step) => {
      const numbers = [...odd, ...halves, drawn(), drawn(), Math.fround(drawn()), Math.round(drawn() * 1e6)];
      const at = step % numbers.length;
      return JSON.stringify({
        step,
        reward: drawn(),
        odd: numbers[at],
        "part/a b": numbers[(at + 5) % numbers.length],
      });
    });
    const text = `${lines.join("\n")}\n`;
    expectSame(text, scanned(text));
  });

  it("may come in pieces that end anywhere", () => {
    const text = Array.from(
      { length: 40 },
      (_, step) => `${JSON.stringify({ step, a: step / 7, "b/ü": -step })}\n`,
    ).join("");
    for (const pieces of [1, 7, 64, 1000]) expectSame(text, scanned(text, pieces));
  });

  it("may have names that come late, go away, or change places", () => {
    const text = [
      { step: 1, a: 1, b: 2 },
      { step: 2, b: 3, a: 4, c: null },
      { step: 3, late: 5 },
      { a: 6, step: 4, late: 7, b: 8 },
      { step: 4, 'with "quotes"': 9 },
    ].map((one) => `${JSON.stringify(one)}\n`);
    const result = scanned(text.join(""));
    expectSame(text.join(""), result);
    expect(result.table.get("c")!.has(1)).toBe(true);
    expect(result.table.get("c")!.values[1]).toBeNaN();
    expect(result.problems).toEqual([]);
  });

  it("are named by their number where they are no records, and in nobody's way", () => {
    const text =
      '{"step":1,"a":1}\nnonsense\n[1,2]\n\n{"step":2,"a":[1],"b":"x","c":3}\n{"a":1}\n{"step":1,"a":9}\n{"step":3,"a":01}\n{"step":3,"a":4}\n{"step":4,"a"';
    const { table, problems, read } = scanned(text);
    expect([...table.steps.subarray(0, table.rows)]).toEqual([1, 2, 3]);
    expect(problems).toEqual([
      "2 is no JSON",
      "3 is no JSON object",
      "6 names no step",
      "7 is of step 1, after one of step 2",
      "8 is no JSON",
    ]);
    expect(table.get("a")!.has(1)).toBe(false);
    expect(table.get("c")!.values[1]).toBe(3);
    // The last one may be under way.
    expect(text.slice(read)).toBe('{"step":4,"a"');
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { lineAndColumn, scanJson } from "./scan-json.ts";

const limits = { maxDepth: 64, maxKeys: 10_000 };
const parses = (text: string): boolean => {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
};

describe("scanJson", () => {
  it("takes what JSON.parse takes, and refuses what it refuses", () => {
    const json = fc.json({ maxDepth: 5 });
    // Whole, with a character changed, cut short, or a soup of what JSON is made of.
    const damaged = fc
      .tuple(
        json,
        fc.nat(),
        fc.constantFrom("", ",", "}", "]", '"', "\\", "0", "-", ".", "e", "\n", "\u0007", "nul", "é"),
      )
      .map(([text, at, put]) => text.slice(0, at % (text.length + 1)) + put + text.slice((at % (text.length + 1)) + 1));
    const soup = fc
      .array(fc.constantFrom("{", "}", "[", "]", ",", ":", '"a"', '"\\u00e9"', "1", "-0.5e3", "01", "true", " "), {
        maxLength: 12,
      })
      .map((parts) => parts.join(""));
    fc.assert(
      fc.property(fc.oneof(json, damaged, soup), (text) => {
        fc.pre(!/__proto__|constructor|prototype/.test(text));
        expect(scanJson(text, limits) === undefined).toBe(parses(text));
      }),
      { numRuns: 3000, seed: 16 },
    );
  });

  it.each([
    ['{"a": }', "is malformed: a value was expected", 6],
    ['{"a" 1}', "is malformed: a colon was expected", 5],
    ["{a: 1}", "is malformed: a key in quotes was expected", 1],
    ["[1 2]", "is malformed: a comma or ] was expected", 3],
    ['{"a": 1,}', "is malformed: a key in quotes was expected", 8],
    ['{"a": [1', "ends too early", 8],
    ['{"a": "b', "ends too early", 8],
    ["{} {}", "goes on after its end", 3],
    ['["\t"]', "has a control character in a string", 2],
    ['["\\x41"]', "has a malformed escape in a string", 2],
  ])("%s %s, at %i", (text, problem, at) => {
    expect(scanJson(text, limits)).toEqual({ problem, at });
  });

  it("takes 64 levels and 10,000 keys, and not one more", () => {
    const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
    const keyed = (count: number) => JSON.stringify(Array.from({ length: count }, () => ({ a: 1 })));
    expect(scanJson(nested(64), limits)).toBeUndefined();
    expect(scanJson(nested(65), limits)).toEqual({ problem: "is nested deeper than 64 levels", at: 64 });
    expect(scanJson('{"a":'.repeat(65), limits)?.problem).toContain("deeper than 64");
    expect(scanJson(keyed(10_000), limits)).toBeUndefined();
    expect(scanJson(keyed(10_001), limits)?.problem).toBe("has more than 10000 keys");
  });

  it("stays within its stack whatever is sent", () => {
    expect(scanJson("[".repeat(5_000_000), limits)?.at).toBe(64);
    expect(scanJson(`["${"a".repeat(5_000_000)}"]`, limits)).toBeUndefined();
    expect(scanJson(`["${"\\n".repeat(1_000_000)}"]`, limits)).toBeUndefined();
  });

  it.each(['{"__proto__":1}', '{"a":[{"constructor":{}}]}', '{"\\u005f_proto__":1}', '{"a":1,"prototype":2}'])(
    "refuses the key in %s",
    (text) => {
      expect(scanJson(text, limits)?.problem).toContain("a key that is not allowed");
    },
  );

  it("takes the same words as values", () => {
    expect(scanJson('{"a":"__proto__","b":["constructor"]}', limits)).toBeUndefined();
  });
});

it("counts lines and columns from 1, whatever ends a line", () => {
  expect(lineAndColumn("ab", 0)).toEqual({ line: 1, column: 1 });
  expect(lineAndColumn("a\r\nb\nc\rde", 8)).toEqual({ line: 4, column: 2 });
});

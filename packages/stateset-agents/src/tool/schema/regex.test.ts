import { describe, expect, it } from "vitest";
import { createRandom } from "../../random.ts";
import { compileRegex } from "./regex-match.ts";

describe("a pattern", () => {
  const patterns = [
    "^abc$",
    "a|b|",
    "^(?:a|bc)*d?$",
    "[a-c]+",
    "[^a-c]",
    "^\\d{2,3}$",
    "^\\d{2,}$",
    "\\w+@\\w+\\.com",
    "^a{0}b$",
    ".",
    "^.$",
    "\\bab\\b",
    "\\Bb",
    "^[\\w.-]+$",
    "[\\]a]",
    "^(?<year>\\d{4})-\\d\\d$",
    "\\p{L}+",
    "^\\P{L}$",
    "[\\u00e0-\\u00ff]",
    "^\\u{1F44D}$",
    "\\uD83D\\uDC4D",
    "\\x41",
    "\\s",
    "\\S+$",
    "^$",
    "(a*)*b",
    "(?:)",
    "a??b",
    "\\cA",
    "[\\b]",
    "\\t|\\n",
    "^(a+)+$",
    "x{2}y{1,2}",
  ];
  it.each(patterns)("%s matches what the language's own engine says", (pattern) => {
    const own = compileRegex(pattern);
    const theirs = new RegExp(pattern, "u");
    const random = createRandom(7);
    const alphabet = [
      "a",
      "b",
      "c",
      "d",
      "A",
      "x",
      "y",
      "1",
      "2",
      "-",
      ".",
      "@",
      "com",
      "é",
      "👍",
      " ",
      "\n",
      "_",
      "]",
      "\t",
      "\u0001",
      "\b",
      "2026-11",
    ];
    for (let i = 0; i < 400; i++) {
      const text = Array.from(
        { length: Math.floor(random.next() * 7) },
        () => alphabet[Math.floor(random.next() * alphabet.length)],
      ).join("");
      expect(own.test(text), JSON.stringify(text)).toBe(theirs.test(text));
    }
  });

  it("that would backtrack for ever answers at once", () => {
    for (const pattern of ["^(a+)+$", "^(a|a)*$", "^(?:a?){40}a{40}$", "(x+x+)+y"]) {
      expect(compileRegex(pattern).test(`${"a".repeat(5000)}!`)).toBe(false);
    }
  });

  it.each([
    ["(?=a)b", "looks ahead"],
    ["(?<!a)b", "looks ahead or behind"],
    ["(a)\\1", "refers to a group"],
    ["(?<n>a)\\k<n>", "refers to a group"],
    ["(", "Unterminated group"],
    ["(?:(?:(?:a{100}){100}){100})", "too large"],
    [`${"(".repeat(300)}a${")".repeat(300)}`, "nested too deeply"],
  ])("%s is refused", (pattern, reason) => {
    expect(() => compileRegex(pattern)).toThrow(reason);
  });
});

import { describe, expect, it } from "vitest";
import { buckets, colourOf, colourRules, contrast, middle } from "./colours.ts";

const all = Array.from({ length: buckets }, (_, i) => i);

describe.each(["light", "dark"] as const)("colours of tokens, %s", (theme) => {
  it("can be read on every background, with some to spare", () => {
    for (const ramp of ["signed", "plain"] as const) {
      for (const bucket of all) {
        const { background, text } = colourOf(ramp, bucket, theme);
        expect(contrast(background, text)).toBeGreaterThan(4.8);
      }
    }
  });

  it("has its two signs equally strong, blue below and orange above", () => {
    for (let i = 1; i <= middle; i++) {
      const [low, high] = [
        colourOf("signed", middle - i, theme).background,
        colourOf("signed", middle + i, theme).background,
      ];
      expect(low[2]).toBeGreaterThan(low[0]);
      expect(high[0]).toBeGreaterThan(high[2]);
      expect(contrast(low, high)).toBeLessThan(1.2);
    }
  });

  it("tells neighbours apart", () => {
    for (const ramp of ["signed", "plain"] as const) {
      const shown = all.map((bucket) => colourOf(ramp, bucket, theme).background.join());
      expect(new Set(shown).size).toBe(buckets);
    }
  });
});

it("is a rule for each colour", () => {
  expect(colourRules()).toHaveLength(2 * buckets);
  expect(colourRules()[0]).toMatch(
    /^\.signed-0 \{ background-color: light-dark\(#[0-9a-f]{6}, #[0-9a-f]{6}\); color: /,
  );
});

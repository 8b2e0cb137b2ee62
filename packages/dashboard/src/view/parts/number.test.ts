import { describe, expect, it } from "vitest";
import { ago, bytes, compact, duration, estimate, moment, number, percent, plural, signed } from "./number.ts";

describe("number", () => {
  it.each([
    [0, "0"],
    [1, "1"],
    [0.71344, "0.7134"],
    [0.5, "0.5"],
    [12.5, "12.5"],
    [12345.6, "12,346"],
    [1234567, "1,234,567"],
    [-0.25, "−0.25"],
    [0.000012, "1.2e-5"],
    [2e12, "2e12"],
    [1e-5, "1e-5"],
    [null, "–"],
    [undefined, "–"],
    [Number.NaN, "NaN"],
    [Number.POSITIVE_INFINITY, "∞"],
    [Number.NEGATIVE_INFINITY, "−∞"],
  ])("writes %s as %s", (value, text) => expect(number(value)).toBe(text));

  it("keeps zeros that are part of a whole number", () => {
    expect(number(100)).toBe("100");
    expect(number(5000)).toBe("5,000");
  });
});

it("shortens large numbers", () => {
  expect([compact(950), compact(12_345), compact(4_100_000), compact(-2500), compact(0.123456)]).toEqual([
    "950",
    "12.3k",
    "4.1M",
    "−2.5k",
    "0.123",
  ]);
});

it("writes shares as percent and changes with their sign", () => {
  expect([percent(0.7134), percent(1), percent(0), percent(null)]).toEqual(["71.3%", "100%", "0%", "–"]);
  expect([signed(0.12), signed(-0.03), signed(0)]).toEqual(["+0.12", "−0.03", "0"]);
});

it("writes durations in their two largest units, without sixty seconds or minutes", () => {
  expect(
    [0, 340, 12_340, 59_999, 60_000, 200_000, 3_599_999, 7_500_000, 273_600_000].map((ms) => duration(ms)),
  ).toEqual(["0 ms", "340 ms", "12.3 s", "1 min", "1 min", "3 min 20 s", "1 h", "2 h 5 min", "3 d 4 h"]);
});

it("writes sizes", () => {
  expect([0, 999, 1000, 123_456, 999_950, 8_000_000].map((size) => bytes(size))).toEqual([
    "0 B",
    "999 B",
    "1 kB",
    "123 kB",
    "1 MB",
    "8 MB",
  ]);
});

it("writes a mean with its interval, or alone", () => {
  expect(estimate({ mean: 0.7134, low: 0.66, high: 0.76, count: 9 })).toBe("0.713 [0.66, 0.76]");
  expect(estimate({ mean: 0.5, count: 1 })).toBe("0.5");
  expect(estimate(null)).toBe("–");
});

it("says when something was, also where a clock jumped", () => {
  const now = new Date(2026, 2, 1, 14, 5).getTime();
  expect(moment(now)).toBe("2026-03-01 14:05");
  expect(moment(Number.NaN)).toBe("–");
  expect(ago(now - 200_000, now)).toBe("3 min ago");
  expect(ago(now + 1000, now)).toBe("just now");
  expect(ago(now + 3_600_000, now)).toBe("2026-03-01 15:05");
});

it("counts one and many", () => {
  expect([plural(1, "run"), plural(2, "run"), plural(1000, "reply", "replies")]).toEqual([
    "1 run",
    "2 runs",
    "1,000 replies",
  ]);
});

/** What bench:engine, bench:grpo and bench:reward say of ratios that have become worse. */
import { describe, expect, it } from "vitest";
import { flatRatios } from "../benchmarks/engine/report.ts";
import { ratiosOf } from "../benchmarks/grpo/record.ts";
import { comparison, type Ratios, regressionsOf, requirePeer } from "../benchmarks/regressions.ts";

interface MadeUp {
  machine: string;
  date: string;
  ratios: Ratios;
}

const committed: Record<string, MadeUp> = {
  "CPU, avx512": { machine: "two cores", date: "2026-01-02", ratios: { decode: 4, prefill: 2, train: 1.5 } },
};
const compare = (kind: string, now: Ratios) => comparison(committed, kind, ({ ratios }) => ratios, now);

describe("ratios that have become worse", () => {
  it("are those that fell by more than 15%, of what both have measured", () => {
    const before = { a: 4, b: 4, c: 4, d: 4, gone: 4 };
    const now = { a: 3.39, b: 3.41, c: 4.5, d: 1, fresh: 0.1 };
    expect(regressionsOf(before, now)).toEqual([
      { metric: "a", before: 4, now: 3.39 },
      { metric: "d", before: 4, now: 1 },
    ]);
  });

  it("are named, each with what it was and what it is", () => {
    const { lines, worse } = compare("CPU, avx512", { decode: 3, prefill: 1.9, other: 1 });
    expect(lines).toEqual([
      "Worse by more than 15% than what is committed for this kind of machine (2026-01-02): 1 of 2 ratios:",
      "  decode: 4.00× before, 3.00× now (-25%)",
    ]);
    expect(worse.map(({ metric }) => metric)).toEqual(["decode"]);
  });

  it("are none where all stand, and it is said that there was something to compare with", () => {
    const { lines, worse } = compare("CPU, avx512", { decode: 4.2, train: 1.4 });
    expect(lines).toEqual([
      "Worse by more than 15% than what is committed for this kind of machine (2026-01-02): 0 of 2 ratios.",
    ]);
    expect(worse).toEqual([]);
  });

  it("are not looked for on another kind of machine", () => {
    const { lines, worse } = compare("CPU, avx2", { decode: 0.1 });
    expect(lines).toEqual(["No results of this kind of machine (CPU, avx2) are committed to compare with."]);
    expect(worse).toEqual([]);
  });

  it("cannot be checked without the other side", () => {
    expect(() => requirePeer(true, undefined)).toThrow(/STATESET_PYTHON/);
    expect(() => requirePeer(false, undefined)).not.toThrow();
    expect(() => requirePeer(true, "python")).not.toThrow();
  });
});

describe("the ratios of a record", () => {
  it("are named by model and metric, or by prompt and clock", () => {
    expect(flatRatios({ ratios: { tiny: { decode1: 2 }, small: { decode1: 3, peakMemory: 1.5 } } })).toEqual({
      "tiny decode1": 2,
      "small decode1": 3,
      "small peakMemory": 1.5,
    });
    const timed = (median: number, cpu: number) => ({ seconds: [median], median, cpu, meanTokens: 48 });
    const promptTokens = { total: 2, distinct: 1 };
    const results = {
      short: { ours: timed(1, 2), trl: timed(4, 6), promptTokens },
      longPrompt: { ours: timed(1, 2), promptTokens },
    };
    expect(ratiosOf({ results })).toEqual({ short: 4, "short, processor seconds": 3 });
  });
});

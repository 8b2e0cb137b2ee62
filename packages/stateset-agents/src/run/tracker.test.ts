import { describe, expect, it } from "vitest";
import { guardTrackers, outcomeOf, type Tracker } from "./tracker.ts";

const quiet: Tracker = { name: "quiet", start() {}, log() {}, finish() {} };

it("tells tools how a run ended in the words they know", () => {
  const states = ["running", "finished", "stopped-early", "interrupted", "failed", "lost"] as const;
  expect(states.map(outcomeOf)).toEqual([
    "interrupted",
    "finished",
    "finished",
    "interrupted",
    "failed",
    "interrupted",
  ]);
});

describe("guardTrackers", () => {
  it("keeps going when a tracker throws, counts every failure and warns once", async () => {
    const warnings: string[] = [];
    const seen: number[] = [];
    const broken: Tracker = {
      ...quiet,
      name: "broken",
      log: () => {
        throw new Error("no route");
      },
    };
    const counting: Tracker = { ...quiet, name: "counting", log: (step) => void seen.push(step) };
    const all = guardTrackers([broken, counting], { warn: (m) => warnings.push(m), giveUpAfter: 3 });
    await all.start({ id: "r", dir: "/nowhere", config: {} });
    for (let step = 1; step <= 6; step++) await all.log(step, { reward: 1 });
    await all.finish({ status: "finished", steps: 6 });
    expect(seen).toEqual([1, 2, 3, 4, 5, 6]);
    expect(warnings).toEqual(['Tracker "broken" failed in log: no route. The run goes on without it.']);
    expect(all.failures.get("broken")).toBe(3);
  });

  it("does not wait for a tracker that hangs", async () => {
    const warnings: string[] = [];
    const hanging: Tracker = { ...quiet, name: "hanging", start: () => new Promise(() => {}) };
    const all = guardTrackers([hanging], { warn: (m) => warnings.push(m), timeoutMs: 20 });
    await all.start({ id: "r", dir: "/nowhere", config: {} });
    expect(warnings[0]).toContain("no answer within 20 ms");
  });
});

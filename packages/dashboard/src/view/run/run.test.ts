import { describe, expect, it } from "vitest";
import type { MetricInfo, SeriesHead, TrajectoryRow } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { decodePacked, encodePacked } from "../../../../stateset-agents/src/dashboard/api/packed.ts";
import { chooseCharts } from "./choose-charts.ts";
import { folded, happenings, nearestStep } from "./marks.ts";
import { pruned, shortJson } from "./prune.ts";
import { addUp, evaluationPoints, line, stepPlaces, withSpread } from "./series.ts";
import { stepLines } from "./step-groups.ts";

const metric = (name: string, count = 3): MetricInfo => ({ name, meaning: "", unit: "number", count, last: 1 });

describe("which curves are shown", () => {
  const metrics = ["reward", "part/a", "part/b", "loss", "kl", "selection/low", "own/x"].map((name) => metric(name));

  it("shows the reward, its parts, and the usual ones that the run has", () => {
    const charts = chooseCharts({ metrics, curve: { metric: "reward", points: [] } }, undefined);
    expect(charts).toMatchObject({ main: "reward", parts: ["part/a", "part/b"], rest: ["kl", "loss"] });
    expect(charts.choice.map(({ name }) => name)).toEqual(["loss", "kl", "own/x"]);
  });

  it("shows those that were chosen, without what the run does not write", () => {
    const charts = chooseCharts({ metrics, curve: { metric: "reward", points: [] } }, ["own/x", "gone"]);
    expect(charts.rest).toEqual(["own/x"]);
  });

  it("names what cannot be asked for, and shows the rest", () => {
    const odd = [...metrics, metric("own/\ud800")];
    const charts = chooseCharts({ metrics: odd, curve: { metric: "reward", points: [] } }, undefined);
    expect(charts).toMatchObject({ unaskable: ["own/\ud800"], rest: ["kl", "loss"] });
  });

  it("shows loss and held-out numbers of a learner from data", () => {
    const data = ["loss", "gradNorm", "held-out/loss", "held-out/pairs"].map((name) => metric(name));
    const charts = chooseCharts({ metrics: data, curve: { metric: "loss", points: [] } }, undefined);
    expect(charts).toMatchObject({ main: "loss", heldOut: "held-out/loss", parts: [], rest: ["gradNorm"] });
  });

  it("shows nothing before the first step", () => {
    expect(
      chooseCharts({ metrics: [metric("reward", 0)], curve: { metric: "reward", points: [] } }, undefined),
    ).toMatchObject({
      main: null,
      rest: [],
    });
  });
});

describe("what happened", () => {
  it("is said in words", () => {
    const found = happenings([
      {
        seq: 1,
        step: 4,
        type: "verdict",
        kind: "too-easy",
        severity: "note",
        message: "m",
        advice: "a",
        scenarioIds: ["s"],
      },
      { seq: 2, step: 5, type: "adjustment", setting: "klCoefficient", from: 0.1, to: 0.2, reason: "r" },
      { seq: 3, step: 6, type: "warning", kind: "data-cut", message: "w" },
      { seq: 4, step: 6, type: "checkpoint", best: true },
    ]);
    expect(found.map(({ name, text }) => [name, text])).toEqual([
      ["too easy", "m"],
      ["adjustment", "klCoefficient 0.1 → 0.2: r"],
      ["data cut", "w"],
    ]);
    expect(found[0]).toMatchObject({ scenarioIds: ["s"], advice: "a", severity: "note" });
  });

  it("is said once where only its numbers differ", () => {
    const warning = (step: number, message: string) => ({
      seq: step,
      step,
      type: "warning",
      kind: "data-cut",
      message,
    });
    const list = folded(happenings([warning(1, "cut 3 of 8"), warning(2, "cut 4 of 8"), warning(3, "other")]));
    expect(list.map(({ count, step, last }) => [count, step, last])).toEqual([
      [2, 1, 2],
      [1, 3, 3],
    ]);
  });

  it("leads to the nearest step that was recorded", () => {
    expect([0, 6, 7, 99].map((step) => nearestStep([1, 5, 9], step))).toEqual([1, 5, 5, 9]);
    expect(nearestStep([], 3)).toBeUndefined();
  });
});

describe("series", () => {
  const head: SeriesHead = { x: "step", capped: false, metrics: [{ name: "reward", span: 2 }] };
  const data = decodePacked<SeriesHead>(
    encodePacked(head, {
      "reward.x": Float64Array.of(1, 3),
      "reward.mean": Float32Array.of(0.5, 1),
      "reward.min": Float32Array.of(0, 1),
      "reward.max": Float32Array.of(1, 1),
    }).buffer,
  );

  it("has the least and the most where a point stands for several steps", () => {
    expect(line(data, "reward")).toMatchObject({ name: "reward", min: Float32Array.of(0, 1) });
    expect(line({ ...data, head: { ...head, metrics: [] } }, "reward")).not.toHaveProperty("min");
    expect(line(data, "not there").x).toHaveLength(0);
  });

  it("stacks parts only where they make up the reward", () => {
    const series = (...y: number[]) => ({ name: "", x: y.map((_, i) => i), y });
    const halves = [series(0.1, Number.NaN), series(0.2, 0.5)];
    expect(addUp(halves, series(0.3, 0.9))).toBe(true);
    expect(addUp(halves, series(0.2, 0.9))).toBe(false);
  });

  it("lays the spread around the line", () => {
    const main = { name: "a", x: [1, 2], y: [10, 20] };
    expect(withSpread(main, { name: "s", x: [1, 2], y: [1, 2] })).toMatchObject({
      low: Float64Array.of(9, 18),
      high: Float64Array.of(11, 22),
    });
    expect(withSpread(main, { name: "s", x: [], y: [] })).toBe(main);
  });

  it("puts evaluations where their step lies", () => {
    const one = { weightsOf: null, parts: {}, numbers: {}, failed: 0, lost: 0, failures: [], scenarios: [] };
    const evaluations = [
      { ...one, step: 2, set: "report" as const, reward: { mean: 0.5, low: 0.4, high: 0.6, count: 3 } },
      { ...one, step: 4, set: "report" as const, reward: { mean: null, count: 0 } },
    ];
    const points = evaluationPoints({ evaluations, changes: [], problems: [] }, "report", (step) => step * 10, 1);
    expect(points).toMatchObject({ x: [20], y: [0.5], low: [0.4], high: [0.6] });
    expect(
      evaluationPoints({ evaluations, changes: [], problems: [] }, "selection", (step) => step, 1),
    ).toBeUndefined();
  });

  it("finds a step on an axis of time, between points and beyond them", () => {
    const place = stepPlaces([1, 3, 5], [10, 30, 90]);
    expect([0, 1, 2, 3, 4, 5, 9].map(place)).toEqual([0, 10, 20, 30, 60, 90, 90]);
    expect(stepPlaces([], [])(7)).toBe(7);
    expect(stepPlaces([2], [8])(2)).toBe(8);
  });
});

describe("settings", () => {
  const config = { algorithm: { name: "grpo", epsilon: 0.2 }, seed: 1, list: ["a", "b"] };

  it("keeps the branches that have the words", () => {
    expect(pruned(config, "epsilon")).toEqual({ algorithm: { epsilon: 0.2 } });
    expect(pruned(config, "algo")).toEqual({ algorithm: config.algorithm });
    expect(pruned(config, "b")).toEqual({ list: { 1: "b" } });
    expect(pruned(config, "")).toBe(config);
    expect(pruned(config, "nothing")).toBeUndefined();
  });

  it("writes a value in one line", () => {
    expect([shortJson("a"), shortJson({ a: 1 }), shortJson(undefined), shortJson(null)]).toEqual([
      "a",
      '{"a":1}',
      "–",
      "null",
    ]);
    expect(shortJson("x".repeat(500))).toHaveLength(401);
  });
});

it("puts conversations under their groups, with the numbers of each", () => {
  const row = (key: string, group: string | null, reward: number | null) =>
    ({ key, group, reward, scenario: "s", step: 1 }) as TrajectoryRow;
  const lines = stepLines([row("a", "g", 1), row("b", "h", null), row("c", "g", 0)]);
  expect(lines.map((one) => (one.kind === "group" ? [one.key, one.count, one.mean, one.spread] : one.row.key))).toEqual(
    [["g", 2, 0.5, Math.SQRT1_2], "a", "c", ["h", 1, null, null], "b"],
  );
});

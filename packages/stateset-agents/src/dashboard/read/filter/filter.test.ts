import { describe, expect, it } from "vitest";
import type { RunRow } from "../../api/index.ts";
import { type FieldSource, settingsOf } from "./fields.ts";
import { checkNames, matches, orderBy } from "./match.ts";
import { parseFilter } from "./parse.ts";

const row = (own: Partial<RunRow>): RunRow => ({
  key: "k",
  id: "k",
  folder: 0,
  state: "finished",
  reason: null,
  problems: [],
  learner: "rl",
  algorithm: "grpo",
  model: "starter",
  seed: 0,
  step: 10,
  steps: 10,
  startedAt: 0,
  heartbeatAt: null,
  curve: { metric: "reward", points: [] },
  reward: null,
  loss: null,
  heldOut: null,
  tokensPerSecond: null,
  tags: [],
  note: "",
  archived: false,
  ...own,
});

const sources: FieldSource[] = [
  { id: "a", reward: 0.9, algorithm: "dapo", tags: ["good", "first try"], rate: 0.1 },
  { id: "b", reward: 0.5, algorithm: "grpo", note: "Looks odd", rate: 0.2 },
  { id: "c-DAPO", reward: null, algorithm: "ppo", model: "Qwen/Qwen3", rate: undefined },
].map(({ rate, ...own }) => ({
  row: row(own),
  metrics: [{ name: "selection/reward", count: 1, last: own.reward }],
  settings: settingsOf(rate === undefined ? {} : { settings: { learningRate: rate, kl: { coefficient: 0 } } }),
}));

const found = (text: string) => {
  const filter = parseFilter(text);
  checkNames(filter, sources);
  return sources.filter((source) => matches(filter, source)).map(({ row: { id } }) => id);
};

describe("filters", () => {
  it("find runs by words in what they are called and by what they hold", () => {
    expect(found("")).toEqual(["a", "b", "c-DAPO"]);
    expect(found("dapo")).toEqual(["a", "c-DAPO"]);
    expect(found('"first try"')).toEqual(["a"]);
    expect(found("odd looks")).toEqual(["b"]);
    expect(found("reward > 0.7 & algorithm = dapo")).toEqual(["a"]);
    expect(found("reward>=0.5")).toEqual(["a", "b"]);
    expect(found("selection/reward < 0.6")).toEqual(["b"]);
    expect(found("algorithm = PPO | reward > .8")).toEqual(["a", "c-DAPO"]);
    expect(found("(algorithm = ppo | algorithm = grpo) & reward != 1")).toEqual(["b", "c-DAPO"]);
    expect(found("tags = good")).toEqual(["a"]);
    expect(found("tags != good")).toEqual(["b", "c-DAPO"]);
    expect(found("model ~ qwen")).toEqual(["c-DAPO"]);
  });

  it("know settings by their path, with or without its first part", () => {
    expect(found("settings.learningRate = 0.1")).toEqual(["a"]);
    expect(found("learningRate > 0.1")).toEqual(["b"]);
    expect(found("kl.coefficient = 0")).toEqual(["a", "b"]);
    // What a run does not have is unlike anything.
    expect(found("learningRate != 0.1")).toEqual(["b", "c-DAPO"]);
  });

  it.each([
    ["reward > ", "column 10: expected a value after >, found the end"],
    ["(reward > 1", "column 12: the parenthesis of column 1 is not closed"],
    ["reward > 1)", 'column 11: did not expect ")"'],
    ["> 1", 'column 1: expected a word or a name, found ">"'],
    ['note = "odd', "column 8: this quote is not closed"],
    ["a & & b", 'column 5: expected a word or a name, found "&"'],
    ["! a", "column 1: did not expect !"],
    ["rewrd > 1", 'column 1: there is no "rewrd". Did you mean "reward"?'],
    ["dapo & lerningRate = 1", 'column 8: there is no "lerningRate". Did you mean "settings.learningRate"?'],
  ])("refuse %j by its place", (text, message) => {
    expect(() => found(text)).toThrow(expect.objectContaining({ status: 400, message: `filter, ${message}` }) as Error);
  });

  it("sort what has no value last, whichever way it goes", () => {
    const sorted = (name: string, down: boolean) => [...sources].sort(orderBy(name, down)).map(({ row: { id } }) => id);
    expect(sorted("reward", false)).toEqual(["b", "a", "c-DAPO"]);
    expect(sorted("reward", true)).toEqual(["a", "b", "c-DAPO"]);
    expect(sorted("algorithm", false)).toEqual(["a", "b", "c-DAPO"]);
  });
});

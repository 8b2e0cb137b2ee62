/** What runs reached on scenarios held out, and which of them were measured alike. */
import { differences } from "../../../run/differences.ts";
import type { CompareData, EvaluationData } from "../../api/index.ts";
import { isObject, type JsonObject } from "../json-file.ts";

/** By scenario. */
export type Scores = ReadonlyMap<string, number>;

export interface Scored {
  key: string;
  config: JsonObject | undefined;
  /** Of which set the scores are; undefined where there are none. */
  set: ScenarioSet | undefined;
  scores: Scores;
}

/** What is only looked at goes before what chooses. */
const sets = ["report", "selection"] as const;
type ScenarioSet = (typeof sets)[number];

/** Of the last evaluation of each set. */
export type SetScores = ReadonlyMap<ScenarioSet, Scores>;

export function scoresBySet(evaluations: readonly EvaluationData[]): SetScores {
  return new Map(
    sets.flatMap((set) => {
      // That of step 0 is of the weights it began with.
      const last = evaluations.findLast((one) => one.set === set && one.step > 0 && one.scenarios.length > 0);
      if (!last) return [];
      const scores = last.scenarios.flatMap(({ id, mean }): [string, number][] => (mean === null ? [] : [[id, mean]]));
      return [[set, new Map(scores)]];
    }),
  );
}

/** The set that all have that were measured at all; where there is none, of each the first it has. */
export function scoresToCompare<T extends { measured: SetScores }>(
  runs: readonly T[],
): (T & Pick<Scored, "set" | "scores">)[] {
  const some = runs.filter(({ measured }) => measured.size > 0);
  const common = sets.find((set) => some.every(({ measured }) => measured.has(set)));
  return runs.map((run) => {
    const set = common ?? sets.find((one) => run.measured.has(one));
    const scores = set === undefined ? undefined : run.measured.get(set);
    return { ...run, set: scores && set, scores: scores ?? new Map<string, number>() };
  });
}

/** A higher number of another reward, or on other questions, is no better one. */
export function unlike(a: Scored, b: Scored): CompareData["pairs"][number]["unlike"] {
  if (differ(a.config, b.config, "reward")) return "rewards";
  if (a.set !== b.set || differ(a.config, b.config, "heldOut")) return "scenarios";
  return [...a.scores.keys()].some((id) => b.scores.has(id)) ? null : "scenarios";
}

function differ(a: JsonObject | undefined, b: JsonObject | undefined, part: string): boolean {
  const [one, other] = [a?.[part], b?.[part]].map((facts) => (isObject(facts) ? facts : {}));
  return differences(one!, other!).length > 0;
}

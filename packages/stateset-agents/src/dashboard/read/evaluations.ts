/** What a run was evaluated at: each evaluation by scenario, and what changed from the first to the last of a set. */

import { messageOf } from "../../error.ts";
import { pairedTest } from "../../evaluation/paired-test.ts";
import { twoSided } from "../../evaluation/quantile.ts";
import { pathIn, runFiles } from "../../run/layout.ts";
import type { EstimateData, EvaluationData, EvaluationsData, ProblemData } from "../api/index.ts";
import { readOn, stateOf } from "./index/growing-file.ts";
import { estimateOf } from "./index/held-out.ts";
import type { RunIndex } from "./index/run-index.ts";
import { recordIn } from "./index/scan-events.ts";
import { isObject } from "./json-file.ts";

type ScenarioScore = EvaluationData["scenarios"][number];
type SetName = EvaluationData["set"];
const sets: readonly string[] = ["selection", "report", "held-out"] satisfies SetName[];
/** Fewer samples than this say nothing of how far a scenario's mean may be off. */
const fewestSamples = 3;

/** Of more pairs fewer subsets are drawn: everybody else who asks waits meanwhile. */
const manyPairs = 1000;

export async function evaluationsOf(dir: string, index: RunIndex): Promise<EvaluationsData> {
  const { events: marks } = await index.events();
  const { blocks, problems } = await readScenarios(dir);
  const evaluations = marks.flatMap((event) => {
    if (event.type !== "evaluation" || !sets.includes(event.set as string)) return [];
    const scenarios = blocks.get(`${event.step} ${event.set as string}`)?.shift();
    return [evaluationOf(event, [...(scenarios?.values() ?? [])])];
  });
  const changes = (["report", "selection"] as const).flatMap((set) => changeOf(set, evaluations) ?? []);
  return { evaluations, changes, problems };
}

function evaluationOf(
  event: Readonly<Record<string, unknown>> & { step: number },
  scenarios: ScenarioScore[],
): EvaluationData {
  const { step, set, weightsOf, reward, parts, numbers, failed, lost, failures } = event;
  return {
    step,
    set: set as SetName,
    weightsOf: typeof weightsOf === "number" ? weightsOf : null,
    reward: estimateOf(reward) ?? null,
    parts: numbersOf(parts),
    numbers: numbersOf(numbers),
    failed: typeof failed === "number" ? failed : 0,
    lost: typeof lost === "number" ? lost : 0,
    failures: Array.isArray(failures) ? failures.filter((one): one is string => typeof one === "string") : [],
    scenarios,
  };
}

/** By step and set, each evaluation of them by scenario: what comes twice is of another evaluation. */
type Blocks = Map<string, Map<string, ScenarioScore>[]>;

async function readScenarios(dir: string): Promise<{ blocks: Blocks; problems: ProblemData[] }> {
  const path = pathIn(dir, "evaluations");
  const blocks: Blocks = new Map();
  const problems: ProblemData[] = [];
  if (stateOf(path, undefined) === "gone") return { blocks, problems };
  let line = 0;
  const take = (bytes: Uint8Array, from: number, to: number) => {
    let at = from;
    for (let end = bytes.indexOf(10, at); end >= 0 && end < to; end = bytes.indexOf(10, at)) {
      line++;
      const record = end > at ? recordIn(bytes, at, end) : {};
      if (!record && problems.length < 20)
        problems.push({ where: `${runFiles.evaluations}, line ${line}`, message: "is no JSON object" });
      if (record) addScore(blocks, record);
      at = end + 1;
    }
    return at;
  };
  try {
    await readOn(path, undefined, take, () => line);
  } catch (error) {
    problems.push({ where: runFiles.evaluations, message: `cannot be read: ${messageOf(error)}` });
  }
  return { blocks, problems };
}

function addScore(blocks: Blocks, record: Readonly<Record<string, unknown>>): void {
  const { step, set, scenario, mean, spread, samples, failed } = record;
  if (typeof scenario !== "string") return;
  const key = `${step as number} ${set as string}`;
  const lists = blocks.get(key) ?? [];
  blocks.set(key, lists);
  const number = (value: unknown) => (typeof value === "number" ? value : null);
  const open = lists.at(-1);
  const score = {
    id: scenario,
    mean: number(mean),
    spread: number(spread),
    samples: number(samples) ?? 0,
    failed: number(failed) ?? 0,
  };
  if (open && !open.has(scenario)) open.set(scenario, score);
  else lists.push(new Map([[scenario, score]]));
}

function changeOf(
  set: "selection" | "report",
  evaluations: readonly EvaluationData[],
): EvaluationsData["changes"][number] | undefined {
  const own = evaluations.filter((one) => one.set === set && one.scenarios.length > 0);
  const [first, last] = [own[0], own.at(-1)];
  if (!first || !last || first === last) return undefined;
  const bounded = [first, last].every(({ scenarios }) =>
    scenarios.every(({ mean }) => mean === null || (mean >= 0 && mean <= 1)),
  );
  const after = new Map(last.scenarios.map((score) => [score.id, score]));
  const both = first.scenarios.flatMap((a) => {
    const b = after.get(a.id);
    return b ? [{ a, b }] : [];
  });
  const scored = both.filter(({ a, b }) => a.mean !== null && b.mean !== null);
  const test =
    scored.length === 0
      ? undefined
      : pairedTest(
          scored.map(({ a }) => a.mean!),
          scored.map(({ b }) => b.mean!),
          scored.length > manyPairs ? { resamples: 1999 } : {},
        );
  return {
    set,
    from: first.step,
    to: last.step,
    difference: test ? { ...test.difference } : { mean: null, count: 0 },
    pValue: test?.pValue ?? null,
    scenarios: both
      .map(({ a, b }) => ({
        id: a.id,
        before: scenarioEstimate(a, bounded),
        after: scenarioEstimate(b, bounded),
        change: a.mean === null || b.mean === null ? null : b.mean - a.mean,
        failed: b.failed,
      }))
      .sort((a, b) => (a.change ?? Infinity) - (b.change ?? Infinity)),
  };
}

/** Student's t over the samples of one scenario; between 0 and 1 where all scores are. */
function scenarioEstimate({ mean, spread, samples }: ScenarioScore, bounded: boolean): EstimateData {
  const summary = { mean, count: samples };
  if (mean === null || spread === null || samples < fewestSamples || spread === 0) return summary;
  const half = (twoSided(0.95, samples - 1) * spread) / Math.sqrt(samples);
  const [low, high] = [mean - half, mean + half];
  return { ...summary, low: bounded ? Math.max(0, low) : low, high: bounded ? Math.min(1, high) : high };
}

function numbersOf(value: unknown): Record<string, number | null> {
  if (!isObject(value)) return {};
  const numbers = Object.entries(value).filter(([, one]) => typeof one === "number" || one === null);
  return Object.fromEntries(numbers) as Record<string, number | null>;
}

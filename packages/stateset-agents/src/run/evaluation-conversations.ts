/**
 * The conversations of evaluations on held-out scenarios: trajectories/evaluation-000010.jsonl, one ConversationRecord a line, those of the set
 * "selection" before those of "report", which may be measured at another time. Without tokens, and never learnt from. The same
 * evaluation gives the same bytes.
 */
import { existsSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { parseRecord } from "../conversation/parse-record.ts";
import { parseJsonLine } from "../conversation/read-entries.ts";
import { type ConversationRecord, toConversationRecord } from "../conversation/record.ts";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import { writeFileAtomic } from "../durable.ts";
import { readPlainText } from "../plain-file.ts";
import type { RolloutReport } from "../rollout/report.ts";
import type { EvaluationRecord, RewardEvaluation } from "./event.ts";
import { pathIn } from "./layout.ts";

/** Those of the first so many scenarios are written; the last line says how many are not. */
export const mostScenarios = 64;

type EvaluationSet = RewardEvaluation["set"];
type Done = Pick<EvaluationRecord, "step" | "set">;

export function writeEvaluation(
  dir: string,
  { step, set }: { step: number; set: EvaluationSet },
  groups: readonly TrajectoryGroup[],
  lost: RolloutReport["lost"],
): void {
  const scenarios = [...new Set([...groups, ...lost].map(({ scenarioId }) => scenarioId))];
  const written = new Set(scenarios.slice(0, mostScenarios));
  const all = [
    ...groups.flatMap(({ id: group, trajectories }) => trajectories.map((one) => ({ one, place: { group, step } }))),
    ...lost.map(({ group, ...one }) => ({ one, place: { group, step, leftOut: "lost" as const } })),
  ];
  const kept = all.filter(({ one }) => written.has(one.scenarioId));
  const records = kept.map(({ one, place }): ConversationRecord => ({ ...toConversationRecord(one, place), set }));
  const last = records.at(-1);
  if (last && kept.length < all.length) {
    last.notWritten = { lost: 0, dropped: 0, refused: 0, evaluated: all.length - kept.length };
  }
  const path = evaluationFile(dir, step);
  const lines = records.map((record) => `${JSON.stringify(record)}\n`).join("");
  const other = existsSync(path) ? linesOf(readFileSync(path, "utf8"), (one) => one !== set) : "";
  writeFileAtomic(path, set === "selection" ? lines + other : other + lines);
}

/** The steps after which conversations of evaluations were kept; 0: before the first. */
export function evaluatedSteps(dir: string): number[] {
  const folder = pathIn(dir, "trajectories");
  if (!existsSync(folder)) return [];
  const steps = readdirSync(folder).flatMap((name) => {
    const [, digits] = /^evaluation-(\d{6,})\.jsonl$/.exec(name) ?? [];
    return digits === undefined ? [] : [Number(digits)];
  });
  return steps.sort((a, b) => a - b);
}

/** None where none were kept. A damaged line is refused by its place. */
export function readEvaluation(dir: string, step: number): ConversationRecord[] {
  const path = evaluationFile(dir, step);
  if (!existsSync(path)) return [];
  return readPlainText(path)
    .split("\n")
    .flatMap((text, i) => {
      if (text === "") return [];
      const where = `${path}, line ${i + 1}`;
      return [parseRecord(parseJsonLine(text, where), where, String(i + 1))];
    });
}

/** Removes those of evaluations that a run has not made yet, or makes again. */
export function keepEvaluations(dir: string, made: readonly Done[]): void {
  for (const step of evaluatedSteps(dir)) {
    const path = evaluationFile(dir, step);
    const text = readFileSync(path, "utf8");
    const kept = linesOf(text, (set) => made.some((one) => one.step === step && one.set === set));
    if (kept === "") rmSync(path, { force: true });
    else if (kept !== text) writeFileAtomic(path, kept);
  }
}

function linesOf(text: string, wanted: (set: unknown) => boolean): string {
  return text
    .split("\n")
    .filter((line) => line !== "" && wanted(setOf(line)))
    .map((line) => `${line}\n`)
    .join("");
}

function setOf(line: string): unknown {
  try {
    return (JSON.parse(line) as ConversationRecord | null)?.set;
  } catch {
    return undefined;
  }
}

export function evaluationFile(dir: string, step: number): string {
  return join(pathIn(dir, "trajectories"), `evaluation-${String(step).padStart(6, "0")}.jsonl`);
}

export function evaluationFiles(dir: string): string[] {
  return evaluatedSteps(dir).map((step) => evaluationFile(dir, step));
}

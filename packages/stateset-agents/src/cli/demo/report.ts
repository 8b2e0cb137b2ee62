import type { Colors } from "picocolors/types";
import { turnLines } from "../../conversation/actions.ts";
import type { Trajectory, Turn } from "../../conversation/trajectory.ts";
import { type Estimate, estimateGroups } from "../../evaluation/estimate.ts";
import { compare, type Evaluation } from "../../evaluation/evaluate.ts";
import { printable } from "../../printable.ts";
import { isPolite } from "../../reward/builtin/politeness.ts";
import { beside, wrap } from "../../telemetry/columns.ts";
import { intervalText, number, percent, table } from "../../telemetry/format.ts";

export interface DemoMeasures {
  reward: Estimate;
  /** Share of replies with a courtesy. */
  politeness: Estimate;
  words: Estimate;
}

export function measuresOf(evaluation: Evaluation): DemoMeasures {
  const politeness = estimateGroups(
    evaluation.groups.map((group) => group.trajectories.map((trajectory) => politeShare(trajectory))),
  );
  return { reward: evaluation.reward, politeness, words: evaluation.words };
}

function politeShare({ turns }: Trajectory): number {
  const replies = turns.filter((turn) => turn.role === "assistant");
  return replies.filter((turn) => isPolite(turn.content)).length / Math.max(1, replies.length);
}

/** Before and after with 95% intervals. */
export function comparisonTable(before: DemoMeasures, after: DemoMeasures, colors: Colors): string[] {
  const row = (name: string, of: keyof DemoMeasures, show: (value: number) => string) => {
    const cell = (estimate: Estimate) => `${show(estimate.mean)} ${intervalText(estimate, show)}`;
    return [name, cell(before[of]), cell(after[of])];
  };
  return table(
    [`on ${before.reward.count} held-out scenarios`, "before", "after"],
    [
      row("polite replies", "politeness", percent),
      row("words per reply", "words", (value) => value.toFixed(1)),
      row(colors.bold("reward"), "reward", number),
    ],
    colors.dim,
  );
}

/** In words: whether the gain is outside chance, by a paired test over the scenarios. */
export function conclusion(before: Evaluation, after: Evaluation, colors: Colors): string {
  const { verdict, difference, pValue } = compare(before, after).reward;
  const by = `${difference.mean < 0 ? "" : "+"}${number(difference.mean)} ${intervalText(difference)}`;
  const chance = pValue < 0.001 ? "p < 0.001" : `p = ${pValue.toFixed(3)}`;
  const measured = `${by} over ${difference.count} scenarios, ${chance}`;
  if (verdict === "b") return colors.green(`The agent got better: ${measured}.`);
  if (verdict === "a") return colors.red(`The agent got worse: ${measured}.`);
  if (verdict === "unknown") return colors.yellow(`${difference.count} scenarios are too few to tell.`);
  return colors.yellow(`Chance may explain the difference: ${measured}.`);
}

/** The same scenario, with the same seed, before and after training: level at each thing the customer says. */
export function conversationPair(before: Trajectory, after: Trajectory, columns: number, colors: Colors): string[] {
  const gap = colors.dim(" │ ");
  const width = Math.max(20, Math.floor((Math.min(columns, 140) - 3) / 2));
  const [left, right] = [before, after].map(({ turns }) => passages(turns, width, colors));
  const lines = beside([colors.bold("before")], [colors.bold("after")], width, gap);
  for (let i = 0; i < Math.max(left!.length, right!.length); i++) {
    lines.push(...beside(left![i] ?? [], right![i] ?? [], width, gap));
  }
  return lines;
}

/** What the customer said, with all that followed until the customer spoke again. */
function passages(turns: readonly Turn[], width: number, colors: Colors): string[][] {
  const all: string[][] = [];
  for (const turn of turns) {
    const user = turn.role === "user";
    if (user || all.length === 0) all.push([]);
    const texts = turnLines(turn, user ? "customer" : "agent").map(printable);
    const quiet = user || turn.role === "tool";
    all.at(-1)!.push(...texts.flatMap((text) => wrap(text, width)).map((line) => (quiet ? colors.dim(line) : line)));
  }
  return all;
}

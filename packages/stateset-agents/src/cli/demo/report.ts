import type { Colors } from "picocolors/types";
import type { Trajectory } from "../../conversation/trajectory.ts";
import { type Estimate, estimateGroups } from "../../evaluation/estimate.ts";
import { compare, type Evaluation } from "../../evaluation/evaluate.ts";
import { isPolite } from "../../reward/builtin/politeness.ts";
import { wrap } from "../../telemetry/columns.ts";
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

/** The same scenario, with the same seed, before and after training. */
export function conversationPair(before: Trajectory, after: Trajectory, columns: number, colors: Colors): string[] {
  const gap = " │ ";
  const width = Math.max(20, Math.floor((Math.min(columns, 140) - gap.length) / 2));
  const user = (turn: { role: string } | undefined) => turn?.role === "user";
  const lines = [`${colors.bold("before".padEnd(width))}${colors.dim(gap)}${colors.bold("after")}`];
  const count = Math.max(before.turns.length, after.turns.length);
  for (let i = 0; i < count; i++) {
    const cells = [before.turns[i], after.turns[i]].map((turn) =>
      turn ? wrap(`${user(turn) ? "customer" : "agent"}: ${turn.content}`, width) : [],
    );
    const height = Math.max(...cells.map((cell) => cell.length));
    for (let line = 0; line < height; line++) {
      const [left = "", right = ""] = cells.map((cell) => (cell[line] ?? "").padEnd(width));
      const text = `${left}${colors.dim(gap)}${right.trimEnd()}`;
      lines.push(user(before.turns[i] ?? after.turns[i]) ? colors.dim(text) : text);
    }
  }
  return lines;
}

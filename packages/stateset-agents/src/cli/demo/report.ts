import type { Colors } from "picocolors/types";
import type { Trajectory } from "../../conversation/trajectory.ts";
import { bootstrapGroups, type Estimate } from "../../evaluation/bootstrap.ts";
import type { Evaluation } from "../../evaluation/evaluate.ts";
import { isPolite } from "../../reward/builtin/politeness.ts";
import { number, percent, table } from "../../telemetry/format.ts";
import { wrap } from "../chat/columns.ts";

export interface DemoMeasures {
  reward: Estimate;
  /** Share of replies with a courtesy. */
  politeness: Estimate;
  words: Estimate;
}

export function measuresOf(evaluation: Evaluation): DemoMeasures {
  const politeness = bootstrapGroups(
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
    const cell = ({ mean, low, high }: Estimate) => `${show(mean)} [${show(low)}, ${show(high)}]`;
    return [name, cell(before[of]), cell(after[of])];
  };
  return table(
    ["on held-out scenarios", "before", "after"],
    [
      row("polite replies", "politeness", percent),
      row("words per reply", "words", (value) => value.toFixed(1)),
      row(colors.bold("reward"), "reward", number),
    ],
    colors.dim,
  );
}

/** In words: whether the gain is outside chance. */
export function conclusion(before: Estimate, after: Estimate, colors: Colors): string {
  if (after.low > before.high) return colors.green("The agent got better; the intervals do not overlap.");
  if (after.high < before.low) return colors.red("The agent got worse; the intervals do not overlap.");
  return colors.yellow("The intervals overlap: chance may explain the difference.");
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

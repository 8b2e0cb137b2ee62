/** Conversations under the group (or scenario) they belong to. */
import type { TrajectoryRow } from "../../../../stateset-agents/src/dashboard/api/index.ts";
import { spreadOf } from "../parts/spread.ts";

export interface GroupLine {
  kind: "group";
  /** Of the group's page; null where the conversations have no group. */
  key: string | null;
  scenario: string | null;
  step: number;
  count: number;
  mean: number | null;
  spread: number | null;
  best: number | null;
  worst: number | null;
}

export type StepLine = GroupLine | { kind: "conversation"; row: TrajectoryRow };

/** Groups in the order in which their first conversation comes. */
export function stepLines(rows: readonly TrajectoryRow[]): StepLine[] {
  const groups = new Map<string, TrajectoryRow[]>();
  for (const row of rows) {
    const key = row.group ?? `${row.step} ${row.scenario ?? row.key}`;
    const group = groups.get(key);
    if (group) group.push(row);
    else groups.set(key, [row]);
  }
  return [...groups.values()].flatMap((members): StepLine[] => [
    groupLine(members),
    ...members.map((row): StepLine => ({ kind: "conversation", row })),
  ]);
}

function groupLine(members: readonly TrajectoryRow[]): GroupLine {
  const { group, scenario, step } = members[0]!;
  const rewards = members.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const mean = rewards.length === 0 ? null : rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
  return {
    kind: "group",
    key: group,
    scenario,
    step,
    count: members.length,
    mean,
    spread: spreadOf(rewards),
    best: rewards.length === 0 ? null : Math.max(...rewards),
    worst: rewards.length === 0 ? null : Math.min(...rewards),
  };
}

/** The members of a group: sorted, summed up, and two of them to compare. */
import type { GroupData } from "../../../../stateset-agents/src/dashboard/api/index.ts";

export type Member = GroupData["members"][number];

/** A column of the table, and what it sorts by; the largest first unless said otherwise. */
export interface Column {
  name: string;
  label: string;
  title?: string;
  value(member: Member): number | string | null;
}

export function columnsOf(members: readonly Member[]): Column[] {
  const parts = [...new Set(members.flatMap(({ breakdown }) => Object.keys(breakdown)))];
  const some = (of: (member: Member) => unknown) => members.some((member) => of(member) !== null);
  return [
    ...(some(({ reward }) => reward)
      ? [{ name: "reward", label: "Reward", value: ({ reward }: Member) => reward }]
      : []),
    ...parts.map((part) => ({
      name: `part:${part}`,
      label: part,
      title: "A part of the reward",
      value: ({ breakdown }: Member) => breakdown[part] ?? null,
    })),
    ...(some(({ advantage }) => advantage)
      ? [
          {
            name: "advantage",
            label: "Advantage",
            title: "The mean over its tokens that learn",
            value: ({ advantage }: Member) => advantage?.mean ?? null,
          },
          {
            name: "sum",
            label: "Σ advantage",
            title: "Over its tokens: what it adds to the gradient",
            value: ({ advantage }: Member) => advantage?.sum ?? null,
          },
        ]
      : []),
    ...(some(({ clippedShare }) => clippedShare)
      ? [
          {
            name: "clipped",
            label: "Clipped",
            title: "The share of its tokens whose ratio was clipped: they add nothing",
            value: ({ clippedShare }: Member) => clippedShare,
          },
        ]
      : []),
    { name: "tokens", label: "Tokens", title: "That learn, of all of them", value: ({ learnTokens }) => learnTokens },
    { name: "replies", label: "Replies", value: ({ replies }) => replies },
    ...(some(({ ended }) => ended) ? [{ name: "ended", label: "Ended", value: ({ ended }: Member) => ended }] : []),
  ];
}

/** Indices of the members. `sort` names a column, with - before it the smallest first; what has no value comes last. */
export function sorted(members: readonly Member[], columns: readonly Column[], sort: string | undefined): number[] {
  const up = sort?.startsWith("-") ?? false;
  const column = columns.find(({ name }) => name === sort?.replace(/^-/, "")) ?? columns[0]!;
  const order = members.map((_, i) => i);
  return order.sort((a, b) => {
    const [x, y] = [column.value(members[a]!), column.value(members[b]!)];
    if (x === null || y === null) return x === y ? a - b : x === null ? 1 : -1;
    const less = typeof x === "string" || typeof y === "string" ? String(y).localeCompare(String(x)) : x - y;
    return (up ? less : -less) || a - b;
  });
}

/** The best and the worst by reward, or the two sides of a pair; two of the first where nothing tells them apart. */
export function twoToCompare(members: readonly Member[]): readonly [number, number] | undefined {
  if (members.length < 2) return undefined;
  const [chosen, rejected] = [
    members.findIndex(({ side }) => side === "chosen"),
    members.findIndex(({ side }) => side === "rejected"),
  ];
  if (chosen >= 0 && rejected >= 0) return [chosen, rejected];
  const rewarded = members.flatMap(({ reward }, i) => (reward === null ? [] : [i]));
  if (rewarded.length < 2) return [0, 1];
  const best = rewarded.reduce((a, b) => (members[b]!.reward! > members[a]!.reward! ? b : a));
  const worst = rewarded.reduceRight((a, b) => (members[b]!.reward! < members[a]!.reward! ? b : a));
  return best === worst ? [rewarded[0]!, rewarded[1]!] : [best, worst];
}

export function meanReward(members: readonly Member[], indices: readonly number[]): number | null {
  const rewards = indices.flatMap((i) => members[i]?.reward ?? []);
  return rewards.length === 0 ? null : rewards.reduce((a, b) => a + b, 0) / rewards.length;
}

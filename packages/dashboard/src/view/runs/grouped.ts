/** Rows of the table, under a heading for each value where they are grouped. */
import type { RunRow } from "../../../../stateset-agents/src/dashboard/api/index.ts";

export type Line =
  | { kind: "heading"; value: string; count: number; reward: number | null; closed: boolean }
  | { kind: "run"; row: RunRow };

/** Groups come in the order in which their first row does. A closed one shows its heading alone. */
export function lines(rows: readonly RunRow[], grouped: boolean, closed: ReadonlySet<string>): Line[] {
  if (!grouped) return rows.map((row): Line => ({ kind: "run", row }));
  const groups = new Map<string, RunRow[]>();
  for (const row of rows) {
    const value = row.group ?? "";
    const group = groups.get(value);
    if (group) group.push(row);
    else groups.set(value, [row]);
  }
  return [...groups].flatMap(([value, members]): Line[] => [
    { kind: "heading", value, count: members.length, reward: mean(members), closed: closed.has(value) },
    ...(closed.has(value) ? [] : members.map((row): Line => ({ kind: "run", row }))),
  ]);
}

function mean(rows: readonly RunRow[]): number | null {
  const known = rows.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  return known.length === 0 ? null : known.reduce((sum, reward) => sum + reward, 0) / known.length;
}

/** What changed while somebody looked: rows that are known get their new numbers, those that are gone leave. New ones need their place: `stale`. */
export function patched(
  rows: readonly RunRow[],
  change: { rows: readonly RunRow[]; gone: readonly string[] },
): { rows: RunRow[]; stale: boolean } {
  const fresh = new Map(change.rows.map((row) => [row.key, row]));
  const gone = new Set(change.gone);
  const kept = rows.filter(({ key }) => !gone.has(key));
  const known = new Set(rows.map(({ key }) => key));
  return {
    rows: kept.map((row) => {
      const now = fresh.get(row.key);
      // The value it is grouped by was asked for with the list, and is not in what comes by itself.
      return now ? { ...now, ...(row.group !== undefined && { group: row.group }) } : row;
    }),
    stale: change.rows.some(({ key }) => !known.has(key)),
  };
}

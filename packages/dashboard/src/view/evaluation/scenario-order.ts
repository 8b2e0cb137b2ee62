/** In which order scenarios stand, and which of them. */
import type { EvaluationsData } from "../../../../stateset-agents/src/dashboard/api/index.ts";

export type ScenarioChange = EvaluationsData["changes"][number]["scenarios"][number];

export const orders = ["change", "-change", "name", "after", "-after"] as const;
export type Order = (typeof orders)[number];

export const orderNames: Readonly<Record<Order, string>> = {
  change: "worst change first",
  "-change": "best change first",
  name: "by name",
  after: "lowest after first",
  "-after": "highest after first",
};

export function isOrder(text: string | undefined): text is Order {
  return orders.includes(text as Order);
}

/** Where digits stand in a name they count as numbers: task-2 before task-10. */
const byName = new Intl.Collator("en", { numeric: true }).compare;

/** Those without the number come last, whichever end is first; equals stand by name, so that the order does not jump. */
export function ordered(rows: readonly ScenarioChange[], order: Order, text = ""): ScenarioChange[] {
  const wanted = text.trim().toLowerCase();
  const kept = wanted ? rows.filter(({ id }) => id.toLowerCase().includes(wanted)) : [...rows];
  if (order === "name") return kept.sort((a, b) => byName(a.id, b.id));
  const sign = order.startsWith("-") ? -1 : 1;
  const value = order.endsWith("change")
    ? (row: ScenarioChange) => row.change
    : (row: ScenarioChange) => row.after.mean;
  return kept.sort((a, b) => {
    const [left, right] = [value(a), value(b)];
    if (left === null || right === null) return Number(left === null) - Number(right === null) || byName(a.id, b.id);
    return sign * (left - right) || byName(a.id, b.id);
  });
}

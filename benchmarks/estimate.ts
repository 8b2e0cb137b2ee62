import type { Estimate } from "stateset-agents/telemetry";

/** "0.604 [0.512, 0.690]"; without an interval how many units there were. */
export function estimateText({ mean, low, high, count }: Estimate, show = (value: number) => value.toFixed(3)): string {
  return low === undefined ? `${show(mean)} (n=${count})` : `${show(mean)} [${show(low)}, ${show(high)}]`;
}

/** What two intervals say when nothing pairs their units. */
export function change(
  before: Estimate,
  after: Estimate,
): "better" | "worse" | "intervals overlap" | "too few to tell" {
  if (before.low === undefined || after.low === undefined) return "too few to tell";
  if (after.low > before.high) return "better";
  return after.high < before.low ? "worse" : "intervals overlap";
}

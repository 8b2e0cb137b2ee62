import type { StepMetrics } from "./event.ts";

/** Only finite numbers, since JSON has no others; a missing key says that there was nothing to report. */
export function finiteMetrics(step: number, ...records: readonly Readonly<Record<string, number>>[]): StepMetrics {
  const metrics: StepMetrics = { step };
  for (const record of records) {
    for (const [name, value] of Object.entries(record)) if (Number.isFinite(value)) metrics[name] = value;
  }
  return metrics;
}

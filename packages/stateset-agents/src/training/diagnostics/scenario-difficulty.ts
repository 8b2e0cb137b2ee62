import type { StepSignals } from "./signals.ts";
import type { Finding } from "./verdicts.ts";

/** What a scenario's visits have shown so far. */
export interface ScenarioRecord {
  /** Visits in a row in which all conversations got the same reward; 0 as soon as one group varies. */
  flat: number;
  /** The mean reward of the last visit. */
  last: number;
}

export interface RewardRange {
  low: number;
  high: number;
}

/** Three flat visits: with groups of 8 a scenario that varies at all is hardly flat that often. */
const flatVisits = 3;

export function visitScenarios(
  records: Record<string, ScenarioRecord>,
  range: RewardRange | null,
  signals: StepSignals,
): { records: Record<string, ScenarioRecord>; range: RewardRange | null } {
  const next = { ...records };
  let seen = range;
  for (const { id, mean, spread } of signals.scenarios) {
    next[id] = { flat: spread < 1e-9 ? (next[id]?.flat ?? 0) + 1 : 0, last: mean };
    seen = { low: Math.min(seen?.low ?? mean, mean), high: Math.max(seen?.high ?? mean, mean) };
  }
  return { records: next, range: seen };
}

/**
 * Scenarios that always get the best or the worst reward seen in the run. Rewards have no fixed scale,
 * so "best" and "worst" are the outer fifths of what the run has seen.
 */
export function difficultyFindings(
  records: Readonly<Record<string, ScenarioRecord>>,
  range: RewardRange | null,
): Finding[] {
  if (range === null || range.high - range.low < 1e-9) return [];
  const findings: Finding[] = [];
  for (const [scenarioId, { flat, last }] of Object.entries(records)) {
    if (flat < flatVisits) continue;
    const place = (last - range.low) / (range.high - range.low);
    if (place > 0.8) {
      findings.push({
        kind: "too-easy",
        severity: "note",
        scenarioId,
        message: `Scenario "${scenarioId}" is too easy: all its conversations got ${last.toFixed(2)}, ${flat} visits in a row.`,
        advice: "Draw it less often, or make it harder.",
      });
    } else if (place < 0.2) {
      findings.push({
        kind: "too-hard",
        severity: "note",
        scenarioId,
        message: `Scenario "${scenarioId}" is too hard: all its conversations got ${last.toFixed(2)}, ${flat} visits in a row.`,
        advice: "Draw it less often, give partial credit, or teach it by demonstrations first.",
      });
    }
  }
  return findings;
}

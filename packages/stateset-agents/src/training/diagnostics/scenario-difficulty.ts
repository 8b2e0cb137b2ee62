import type { VerdictKind } from "../../run/event.ts";
import type { RewardRange } from "./progress.ts";
import type { ScenarioVisit } from "./signals.ts";
import { type Finding, isFlat, placeIn } from "./verdicts.ts";

/** What a scenario's visits have shown so far. */
export interface ScenarioRecord {
  /** Visits in a row in which all conversations got the same reward; 0 as soon as one group varies. */
  flat: number;
  /** The mean reward of the last visit. */
  last: number;
  /** Conversations before the present row of failures, and those among them that did not fail. */
  earlier: { conversations: number; succeeded: number };
  /** Visits in a row in which all conversations failed, and how many those were. */
  failing: { visits: number; conversations: number };
}

export type DifficultyKind = Extract<VerdictKind, "too-easy" | "too-hard" | "lost-scenarios">;

/** Three flat visits: with groups of 8 a scenario that varies at all is hardly flat that often. */
export const flatVisits = 3;
/** How unlikely a row of failures must be, had the scenario gone on succeeding as it did. */
const lostChance = 0.005;

/** Takes in the visits of a step. A conversation fails that broke its environment, or whose reward is in the lowest fifth of what the run has seen. */
export function visitScenarios(
  records: Readonly<Record<string, ScenarioRecord>>,
  range: RewardRange | null,
  visits: readonly ScenarioVisit[],
): { records: Record<string, ScenarioRecord>; range: RewardRange | null } {
  const rewards = [...(range ? [range.low, range.high] : []), ...visits.flatMap((visit) => visit.rewards)];
  if (rewards.length === 0) return { records, range };
  const seen = { low: Math.min(...rewards), high: Math.max(...rewards) };
  const next = { ...records };
  const none = { visits: 0, conversations: 0 };
  for (const { id, rewards: scored, failed } of visits) {
    // A failure is as bad as anything; what it counts may lie far outside of what rewards are.
    const own = [...scored, ...new Array<number>(failed).fill(seen.low)];
    const before = next[id] ?? { flat: 0, last: 0, earlier: { conversations: 0, succeeded: 0 }, failing: none };
    const succeeded = scored.filter((reward) => placeIn(seen, reward) >= 0.2).length;
    const { conversations, succeeded: successes } = before.earlier;
    next[id] = {
      flat: isFlat(own) ? before.flat + 1 : 0,
      last: own.reduce((sum, reward) => sum + reward, 0) / own.length,
      failing:
        succeeded === 0
          ? { visits: before.failing.visits + 1, conversations: before.failing.conversations + own.length }
          : none,
      // A success ends the row, which then counts as part of what came before.
      earlier:
        succeeded === 0
          ? before.earlier
          : {
              conversations: conversations + before.failing.conversations + own.length,
              succeeded: successes + succeeded,
            },
    };
  }
  return { records: next, range: seen };
}

/** The scenarios each finding is about, and how many visits in a row were all alike. */
export function difficultyOf(
  records: Readonly<Record<string, ScenarioRecord>>,
  range: RewardRange | null,
): Record<DifficultyKind, { id: string; flat: number }[]> {
  const of: ReturnType<typeof difficultyOf> = { "too-easy": [], "too-hard": [], "lost-scenarios": [] };
  if (range === null || range.high - range.low < 1e-9) return of;
  for (const [id, record] of Object.entries(records)) {
    const place = placeIn(range, record.last);
    const one = { id, flat: record.flat };
    if (isLost(record)) of["lost-scenarios"].push(one);
    else if (record.flat >= flatVisits && place > 0.8) of["too-easy"].push(one);
    else if (record.flat >= flatVisits && place < 0.2) of["too-hard"].push(one);
  }
  return of;
}

/**
 * (1 − p)ⁿ, with p from before the row of n failures, counted as if one more had failed: two lucky conversations are no habit.
 * One visit may be a detour of learning; two are not.
 */
function isLost({ earlier: { conversations, succeeded }, failing }: ScenarioRecord): boolean {
  const chance = (1 - succeeded / (conversations + 1)) ** failing.conversations;
  return succeeded > 1 && failing.visits > 1 && chance < lostChance;
}

/** One finding for all scenarios of a kind. */
export function difficultyFindings(
  records: Readonly<Record<string, ScenarioRecord>>,
  range: RewardRange | null,
): Finding[] {
  const of = difficultyOf(records, range);
  const all = Object.keys(records).length;
  const finding = (kind: DifficultyKind, share: number, rest: Omit<Finding, "kind" | "message">, what: string) => {
    const ids = of[kind].map(({ id }) => id);
    if (ids.length < Math.max(1, share * all)) return [];
    const named = `${ids.slice(0, 5).join(", ")}${ids.length > 5 ? ", …" : ""}`;
    const message = `${ids.length} of ${all} scenarios ${what}: ${named}.`;
    return [{ kind, ...rest, message, scenarioIds: ids }];
  };
  return [
    ...finding(
      "lost-scenarios",
      0.05,
      {
        severity: "warning",
        sure: true,
        advice:
          "Go back to an earlier checkpoint with a lower learning rate, larger groups or more KL; draw these scenarios more often.",
      },
      "that used to succeed now always fail",
    ),
    ...finding(
      "too-easy",
      0.2,
      { severity: "note", sure: true, advice: "Draw them less often, or make them harder." },
      "always get the best reward",
    ),
    ...finding(
      "too-hard",
      0.2,
      {
        severity: "note",
        sure: true,
        advice: "Draw them less often, give partial credit, or teach them by demonstrations first.",
      },
      "always get the worst reward",
    ),
  ];
}

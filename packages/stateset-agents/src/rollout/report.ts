import type { Failure } from "../conversation/failure.ts";
import { StatesetError } from "../error.ts";
import type { Unrewarded } from "./play.ts";

/** What became of the conversations that were asked for. */
export interface RolloutReport {
  /** Conversations asked for. */
  requested: number;
  /** Conversations that came through with a reward. */
  completed: number;
  /** Every failed attempt, the retried ones included, and every failed reward. */
  failures: Failure[];
  /** Conversations that came to nothing, as far as they got: `failure` says why. */
  lost: Unrewarded[];
  /** Groups left out because too few of their conversations came through: fewer than two, or none where the algorithm needs no others. */
  droppedGroups: { id: string; scenarioId: string; survivors: number }[];
  replies: number;
  sampledTokens: number;
}

export function emptyReport(): RolloutReport {
  return { requested: 0, completed: 0, failures: [], lost: [], droppedGroups: [], replies: 0, sampledTokens: 0 };
}

/** Failures of the environment and of the reward, apart. */
export function failuresBySource({ failures }: Pick<RolloutReport, "failures">) {
  const reward = failures.filter(({ during }) => during === "reward");
  return { environment: failures.filter(({ during }) => during !== "reward"), reward };
}

/** How many conversations the environment lost, and how many the reward. */
export function lostBySource({ lost }: Pick<RolloutReport, "lost">) {
  const reward = lost.filter(({ failure }) => failure?.during === "reward").length;
  return { environment: lost.length - reward, reward };
}

/** For work that has nothing to go on with when no conversation came through. */
export function allFailed(report: RolloutReport, where: string): StatesetError {
  const code = lostBySource(report).reward > 0 ? "REWARD_FAILED" : "ENVIRONMENT_FAILED";
  const first = report.failures[0]?.message ?? "?";
  return new StatesetError(code, `All ${report.requested} conversations of ${where} failed. First: ${first}`);
}

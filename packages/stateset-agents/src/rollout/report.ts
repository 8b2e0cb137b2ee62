import type { Failure } from "../conversation/failure.ts";
import type { PartFailure } from "../conversation/part-failures.ts";
import type { Trajectory, TrajectoryGroup } from "../conversation/trajectory.ts";
import { StatesetError } from "../error.ts";
import type { Unrewarded } from "./episode.ts";

/** What became of the conversations that were asked for. */
export interface RolloutReport {
  /** Conversations asked for. */
  requested: number;
  /** Conversations that have a reward, the failed ones among them. */
  completed: number;
  /** Conversations in which the environment threw at a reply: they count, with the score of `onFailure`. */
  failed: Trajectory[];
  /** min(0, the lowest reward so far). Whoever goes on from earlier rollouts begins with theirs. */
  lowestReward: number;
  /** Every failed attempt, the retried ones included, and every failed reward. */
  failures: Failure[];
  /** Parts of rewards that failed without failing the whole, one a conversation. */
  partFailures: (PartFailure & { scenarioId: string; trajectoryId: string })[];
  /** What rewards had to say of themselves, each once. */
  notices: string[];
  /** What a harness asked for and did not get, each once. */
  overridden: string[];
  /** Conversations that came to nothing, as far as they got: `failure` says why. */
  lost: (Unrewarded & { group: string })[];
  /** Groups left out because too few of their conversations came through: fewer than two, or none where the algorithm needs no others. */
  droppedGroups: (TrajectoryGroup & { survivors: number })[];
  replies: number;
  sampledTokens: number;
}

export function emptyReport(lowestReward = 0): RolloutReport {
  return {
    requested: 0,
    completed: 0,
    failed: [],
    lowestReward,
    failures: [],
    partFailures: [],
    notices: [],
    overridden: [],
    lost: [],
    droppedGroups: [],
    replies: 0,
    sampledTokens: 0,
  };
}

/** Failures of the environment, of the agent's hooks and of the reward, apart. */
export function failuresBySource({ failures }: Pick<RolloutReport, "failures">) {
  const of = (source: Source) => failures.filter(({ during }) => sourceOf(during) === source);
  return { environment: of("environment"), agent: of("agent"), reward: of("reward") };
}

/** How many conversations each of them lost. */
export function lostBySource({ lost }: Pick<RolloutReport, "lost">) {
  const of = (source: Source) => lost.filter(({ failure }) => failure && sourceOf(failure.during) === source).length;
  return { environment: of("environment"), agent: of("agent"), reward: of("reward") };
}

type Source = "environment" | "agent" | "reward";

function sourceOf(during: Failure["during"]): Source {
  return during === "reward" ? "reward" : during === "hook" ? "agent" : "environment";
}

/** Whether every conversation failed: then the environment is likelier to be broken than the policy. */
export function noneCameThrough({ completed, failed }: Pick<RolloutReport, "completed" | "failed">): boolean {
  return completed === failed.length;
}

/** For work that has nothing to go on with when no conversation came through. */
export function allFailed(report: RolloutReport, where: string): StatesetError {
  const { reward, agent } = lostBySource(report);
  const code = reward > 0 ? "REWARD_FAILED" : agent > 0 ? "HOOK_FAILED" : "ENVIRONMENT_FAILED";
  const { message = "?", mistake } = report.failures.find((failure) => failure.mistake) ?? report.failures[0] ?? {};
  return new StatesetError(
    code,
    `All ${report.requested} conversations of ${where} failed. First: ${mistake ?? message}`,
  );
}

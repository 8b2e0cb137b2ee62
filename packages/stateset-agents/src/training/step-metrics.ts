import { countByPart, measuredParts } from "../conversation/part-failures.ts";
import { countTools } from "../conversation/tool-counts.ts";
import { type ConstraintNotes, isCut, type Trajectory, type TrajectoryGroup } from "../conversation/trajectory.ts";
import { mean, standardDeviation } from "../evaluation/estimate.ts";
import { failuresBySource, lostBySource } from "../rollout/report.ts";
import type { FactOf } from "../run/event.ts";
import type { Metrics } from "../run/metrics.ts";
import type { Collected } from "./collect.ts";

/** What the conversations of a step say about themselves; metrics.jsonl has these names. */
export function rolloutMetrics({ groups, report, refused, rounds }: Collected): Metrics {
  const trajectories = groups.flatMap((group) => group.trajectories);
  const failures = failuresBySource(report);
  const rewards = trajectories.map((trajectory) => trajectory.reward.score);
  // One conversation alone has no spread, and is not "constant" either.
  const several = groups.filter((group) => group.trajectories.length > 1);
  const spreads = several.map((group) => standardDeviation(group.trajectories.map(({ reward }) => reward.score)));
  const played: Metrics = {
    conversations: trajectories.length,
    sampledTokens: report.sampledTokens,
    replies: report.replies,
    ...(report.replies > 0 && { replyTokens: report.sampledTokens / report.replies }),
    environmentFailures: failures.environment.length,
    failedConversations: report.failed.length,
    environmentLost: lostBySource(report).environment,
    rewardFailures: failures.reward.length,
    ...(failures.agent.length > 0 && { hookFailures: failures.agent.length }),
    droppedGroups: report.droppedGroups.length,
    refusedGroups: refused.length,
    samplingRounds: rounds,
  };
  for (const [name, count] of Object.entries(countByPart(report.partFailures))) played[`partFailures/${name}`] = count;
  const tools = countTools(trajectories.flatMap(({ turns }) => turns));
  Object.assign(played, constraintMetrics(trajectories));
  if (tools.calls > 0) played.toolCalls = tools.calls;
  for (const [kind, count] of Object.entries(tools.failures).sort()) played[`toolFailures/${kind}`] = count;
  if (trajectories.length === 0) return played;
  const metrics: Metrics = {
    ...played,
    reward: mean(rewards),
    rewardStd: standardDeviation(rewards),
    rewardMin: Math.min(...rewards),
    rewardMax: Math.max(...rewards),
    ...(several.length > 0 && {
      groupStd: mean(spreads),
      constantGroups: mean(several.map((group) => (isConstant(group) ? 1 : 0))),
    }),
    truncated: mean(trajectories.map(({ turns }) => (isCut({ turns, ended: "done" }) ? 1 : 0))),
    contextFull: mean(trajectories.map(({ ended }) => (ended === "context-full" ? 1 : 0))),
  };
  const parts = new Map<string, number[]>();
  for (const { reward } of trajectories) {
    for (const [name, value] of Object.entries(measuredParts(reward))) {
      parts.set(name, [...(parts.get(name) ?? []), value]);
    }
  }
  for (const [name, values] of [...parts].sort(([a], [b]) => (a < b ? -1 : 1))) metrics[`part/${name}`] = mean(values);
  return metrics;
}

/** Where calls were held to their schemas. */
function constraintMetrics(trajectories: readonly Trajectory[]): Metrics {
  const notes = trajectories.flatMap(({ turns }) => turns.flatMap(({ sampled }) => sampled?.constrained ?? []));
  if (notes.length === 0) return {};
  const sum = (of: (one: ConstraintNotes) => number) => notes.reduce((total, one) => total + of(one), 0);
  const tokens = sum((one) => one.tokens);
  return {
    constrainedTokens: tokens,
    forcedTokens: sum(({ forced }) => forced),
    ...(tokens > 0 && { removedMass: sum(({ removed }) => removed) / tokens }),
  };
}

/** Whether comparing its conversations says nothing. */
export function isConstant({ trajectories }: TrajectoryGroup): boolean {
  return trajectories.every(({ reward }) => reward.score === trajectories[0]!.reward.score);
}

export function rolloutFacts({ report, refused }: Collected): FactOf<"rollouts"> {
  const { requested, completed, failed, lost, droppedGroups, replies, sampledTokens } = report;
  const groups = { refusedGroups: refused.length, droppedGroups: droppedGroups.length };
  return { requested, completed, failed: failed.length, lost: lost.length, ...groups, replies, sampledTokens };
}

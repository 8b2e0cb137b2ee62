/**
 * Groups of conversations with their rewards. A failure of the environment or of the reward costs a conversation, not the run: it is
 * counted and named in the report. Where the environment threw at a reply the conversation stays, with the score of a failure.
 */
import { linkSignals } from "../abort.ts";
import type { Agent } from "../agent/agent.ts";
import { isAnswer } from "../conversation/failure.ts";
import { partFailuresOf } from "../conversation/part-failures.ts";
import { isReply, type Trajectory, type TrajectoryGroup } from "../conversation/trajectory.ts";
import type { Scenario } from "../environment/scenario.ts";
import { createReferenceScorer, type ReferenceScorer } from "../reward/reference-scorer.ts";
import type { RewardFunction } from "../reward/reward-function.ts";
import type { Unrewarded } from "./episode.ts";
import { type EnvironmentPlay, type Play, playInEnvironment } from "./play.ts";
import type { RolloutReport } from "./report.ts";
import { rewardGroup } from "./reward-group.ts";
import type { RolloutSettings } from "./settings.ts";

/** Who plays and who rewards, and how. */
export interface Rollout {
  play: Play;
  /** Undefined: the environment's own rewards, added up. */
  reward: RewardFunction | undefined;
  /** Whoever drives the conversations judges them. */
  judged?: boolean;
  settings: RolloutSettings;
  /** False in evaluations: tokens are recorded, not marked for learning. */
  learn: boolean;
  /** What is sampled is trained on next: the engine keeps what it computes. Left out: no. */
  keepActivations?: boolean;
  /** What rewards may ask how likely replies are. Left out: one for each call of sampleGroups(). */
  scorer?: ReferenceScorer | undefined;
  /** Whose model samples, and scores for rewards. None, and none for a stub: rewards go without. */
  agent?: Agent;
  /** Told how far it is after every reply and every reward; it must return at once. */
  onProgress?: ((progress: RolloutProgress) => void) | undefined;
  watch?: RolloutWatch | undefined;
}

/** Told of each conversation as it ends and as it is rewarded, in the order that happens; it must return at once. */
export interface RolloutWatch {
  ended(group: string, one: Unrewarded): void;
  /** With its reward, or with how that failed. */
  rewarded(group: string, one: Trajectory | Unrewarded): void;
}

/** How far the conversations of a round are. */
export interface RolloutProgress {
  phase: "sampling" | "rewarding";
  /** Conversations that have come to their end, or have their reward, of those asked for so far. */
  done: number;
  of: number;
  /** Sampled so far. */
  tokens: number;
}

export function environmentRollout(parts: EnvironmentPlay & Omit<Rollout, "play">): Rollout {
  const { reward, settings, learn, agent, scorer, onProgress } = parts;
  return { play: playInEnvironment(parts), reward, settings, learn, agent, scorer, onProgress };
}

/** One scenario to be played `size` times. */
export interface GroupRequest {
  id: string;
  scenario: Scenario;
  size: number;
  seed: number;
}

export interface SampleOptions {
  report: RolloutReport;
  /** Conversations that must come through for a group to be kept. Default 2. */
  minimum?: number;
  signal?: AbortSignal | undefined;
}

/** Plays all groups at once (the engine batches their tokens), then rewards each. When the signal fires, everything under way is stopped before it rejects. */
export async function sampleGroups(
  rollout: Rollout,
  requests: readonly GroupRequest[],
  options: SampleOptions,
): Promise<TrajectoryGroup[]> {
  const { signal, unlink, abort } = linkSignals(options.signal);
  const own = rollout.scorer ? undefined : scorerOf(rollout.agent);
  try {
    const { scorer = own } = rollout;
    return await sampleAll({ ...rollout, scorer }, requests, { ...options, signal, stop: abort });
  } finally {
    unlink();
    await own?.close();
  }
}

/** While the model samples for some, environments and rewards of others are at work. */
const leastConcurrency = 64;

/** Costs nothing until a reward asks it. */
export function scorerOf(agent: Agent | undefined): ReferenceScorer | undefined {
  return agent === undefined || agent.policy.model.stub ? undefined : createReferenceScorer(agent.policy);
}

async function sampleAll(
  rollout: Rollout,
  requests: readonly GroupRequest[],
  { report, minimum = 2, signal, stop }: SampleOptions & { stop: () => void },
): Promise<TrajectoryGroup[]> {
  const { learn, keepActivations } = rollout;
  const slots = rollout.agent?.policy.stats().slots ?? 0;
  const { constrain, concurrency = Math.max(leastConcurrency, slots) } = rollout.settings;
  const sampling = { ...rollout.settings.sampling, constrain };
  const progress = progressOf(rollout, requests, report);
  const conversations = requests.flatMap(({ id, scenario, size, seed }) =>
    Array.from({ length: size }, (_, member) => async () => {
      const own = { id: `${id}-m${member}`, scenario, seed, member, sampling };
      const request = { ...own, learn, keepActivations, onReply: progress.replied };
      const one = await rollout.play(request, signal);
      rollout.watch?.ended(id, one.trajectory);
      progress.ended(1);
      return one;
    }),
  );
  report.requested += conversations.length;
  const played = await runLimited(conversations, concurrency, stop);
  progress.rewarding();
  let at = 0;
  const rewarding = requests.map(({ id, scenario, size }) => {
    const members = played.slice(at, at + size);
    at += size;
    return async () => {
      const one = await rewardGroup(rollout, scenario, members, signal);
      one.members.forEach((member, i) => {
        // Those that failed before were told of then.
        if (member !== members[i]!.trajectory) rollout.watch?.rewarded(id, member);
      });
      progress.ended(size);
      return one;
    };
  });
  const rewarded = await runLimited(rewarding, concurrency, stop);
  // Only now, in the order of the requests: the report must not depend on who was done first.
  for (const { failures } of played) report.failures.push(...failures);
  const said = played.flatMap(({ notices = [] }) => notices);
  report.overridden.push(...new Set(said.filter((notice) => !report.overridden.includes(notice))));
  for (const one of rewarded.flatMap(({ members }) => members).filter(isRewarded))
    report.lowestReward = Math.min(report.lowestReward, one.reward.score);
  const groups = requests.map(({ id, scenario }, i): TrajectoryGroup => {
    const { notices } = rewarded[i]!;
    const members = rewarded[i]!.members.map((one) => {
      const scored = withFailureScore(one, rollout.settings, report);
      if (scored !== one) rollout.watch?.rewarded(id, scored);
      return scored;
    });
    const trajectories = members.filter(isRewarded);
    const lost = members.filter((one) => !isRewarded(one));
    for (const one of members) if (isRewarded(one) || one.ended !== "failed") countTokens(report, one);
    for (const notice of notices) if (!report.notices.includes(notice)) report.notices.push(notice);
    report.lost.push(...lost.map((one) => ({ ...one, group: id })));
    for (const { id: trajectoryId, reward } of trajectories) {
      for (const failure of partFailuresOf(reward.metadata))
        report.partFailures.push({ ...failure, scenarioId: scenario.id, trajectoryId });
    }
    report.failures.push(...lost.map(({ failure }) => failure!).filter(({ during }) => during === "reward"));
    return { id, scenarioId: scenario.id, trajectories };
  });
  return groups.filter((group) => {
    const survivors = group.trajectories.length;
    report.completed += survivors;
    if (survivors >= minimum) return true;
    report.droppedGroups.push({ ...group, survivors });
    return false;
  });
}

/** Counts what happens of this round on top of what the report has of those before. */
function progressOf(
  { onProgress }: Rollout,
  requests: readonly GroupRequest[],
  { requested: before, sampledTokens }: RolloutReport,
) {
  const of = before + requests.reduce((sum, { size }) => sum + size, 0);
  const now: RolloutProgress = { phase: "sampling", done: before, of, tokens: sampledTokens };
  const tell = () => onProgress?.({ ...now });
  tell();
  return {
    replied(tokens: number) {
      now.tokens += tokens;
      tell();
    },
    ended(conversations: number) {
      now.done += conversations;
      tell();
    },
    rewarding() {
      now.phase = "rewarding";
      now.done = before;
      tell();
    },
  };
}

/** A conversation that failed at a reply, with its score; others as they are. */
function withFailureScore(
  one: Trajectory | Unrewarded,
  { onFailure }: RolloutSettings,
  report: RolloutReport,
): Trajectory | Unrewarded {
  if (isRewarded(one) || onFailure === "drop" || !one.failure || !isAnswer(one.failure)) return one;
  // A harness that fails before anything was said has not been answered badly.
  if (one.chains.length === 0) return one;
  const score = onFailure === "lowest" ? report.lowestReward : onFailure.score;
  const failed: Trajectory = { ...one, reward: { score, breakdown: {} } };
  report.failed.push(failed);
  return failed;
}

function isRewarded(one: Trajectory | Unrewarded): one is Trajectory {
  return "reward" in one;
}

/** Of conversations that were played to their end, also where their reward failed. */
function countTokens(report: RolloutReport, { chains, turns }: Unrewarded): void {
  for (const chain of chains) for (const turn of chain.turn) if (turn >= 0) report.sampledTokens++;
  report.replies += turns.filter(isReply).length;
}

/** Runs the tasks with at most `limit` at a time; results in their order. The first rejection stops the others, which are waited for. */
async function runLimited<T>(tasks: readonly (() => Promise<T>)[], limit: number, stop: () => void): Promise<T[]> {
  const results = new Array<T>(tasks.length);
  let next = 0;
  let failure: { error: unknown } | undefined;
  const worker = async () => {
    while (next < tasks.length) {
      const index = next++;
      try {
        results[index] = await tasks[index]!();
      } catch (error) {
        next = tasks.length;
        failure ??= { error };
        stop();
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(limit, tasks.length) }, worker));
  if (failure) throw failure.error;
  return results;
}

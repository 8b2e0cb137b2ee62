/**
 * Conversations between the agent and the environment, with their rewards.
 * A conversation depends on its seed, the weights and the scenario alone: not on which others run beside it, nor on their order.
 * An environment that fails costs one retry; a second failure loses the conversation. A failing reward loses it too. Both are
 * counted and named in the report, and neither ends the run.
 */
import type { Agent } from "../agent/agent.ts";
import type { RewardResult, Trajectory, TrajectoryGroup } from "../conversation/trajectory.ts";
import type { Environment } from "../environment/environment.ts";
import { type EnvironmentFailure, type GuardedEnvironment, runGuarded } from "../environment/guard.ts";
import type { Scenario } from "../environment/scenario.ts";
import { messageOf, StatesetError } from "../error.ts";
import { seedOf } from "../random.ts";
import { checkResult } from "../reward/define-reward.ts";
import type { RewardContext, RewardFunction, RewardInput } from "../reward/reward-function.ts";
import { runLimited, withTimeout } from "./limit.ts";

export interface RolloutSettings {
  agent: Agent;
  environment: Environment;
  /** Undefined: the environment's own rewards, added up. */
  reward: RewardFunction | undefined;
  temperature: number | undefined;
  maxTokens: number | undefined;
  maxTurns: number;
  concurrency: number;
  environmentTimeoutMs: number;
  rewardTimeoutMs: number;
  /** False in evaluations: tokens are recorded, not marked for learning. */
  learn: boolean;
}

/** One scenario to be sampled `size` times. */
export interface GroupRequest {
  id: string;
  scenario: Scenario;
  size: number;
  seed: number;
}

export interface RewardFailure {
  trajectoryId: string;
  scenarioId: string;
  message: string;
  /** The reward was a number, but NaN or infinite. */
  notFinite: boolean;
}

export interface RolloutReport {
  /** Conversations asked for. */
  requested: number;
  /** Conversations that came through with a reward. */
  completed: number;
  /** Every failed attempt, the retried ones included. */
  environmentFailures: EnvironmentFailure[];
  /** Conversations lost because the retry failed too. */
  environmentLost: number;
  rewardFailures: RewardFailure[];
  /** Groups left out because too few of their conversations came through: fewer than two, or none where the algorithm needs no others. */
  droppedGroups: { id: string; scenarioId: string; survivors: number }[];
  replies: number;
  sampledTokens: number;
}

export function emptyReport(): RolloutReport {
  return {
    requested: 0,
    completed: 0,
    environmentFailures: [],
    environmentLost: 0,
    rewardFailures: [],
    droppedGroups: [],
    replies: 0,
    sampledTokens: 0,
  };
}

export function failureMessages({ environmentFailures, rewardFailures }: RolloutReport): string[] {
  return [...environmentFailures, ...rewardFailures].map(({ message }) => message);
}

/** For work that has nothing to go on with when no conversation came through. */
export function allFailed(report: RolloutReport, where: string): StatesetError {
  const code = report.rewardFailures.length > 0 ? "REWARD_FAILED" : "ENVIRONMENT_FAILED";
  const [first = "?"] = failureMessages(report);
  return new StatesetError(code, `All ${report.requested} conversations of ${where} failed. First: ${first}`);
}

type Outcome = { input: RewardInput; trajectory: Trajectory; environmentReward: number };

/** Samples all groups at once (the engine batches their tokens) and rewards each group when it is complete. */
export async function sampleGroups(
  settings: RolloutSettings,
  requests: readonly GroupRequest[],
  report: RolloutReport,
  minimum = 2,
): Promise<TrajectoryGroup[]> {
  const tasks = requests.flatMap((request) =>
    Array.from({ length: request.size }, (_, member) => () => converse(settings, request, member, report)),
  );
  report.requested += tasks.length;
  const outcomes = await runLimited(tasks, settings.concurrency);
  const groups: TrajectoryGroup[] = [];
  let at = 0;
  const rewarding: (() => Promise<void>)[] = [];
  for (const { id, scenario, size } of requests) {
    const members = outcomes.slice(at, at + size).filter((outcome) => outcome !== undefined);
    at += size;
    const group: TrajectoryGroup = { id, scenarioId: scenario.id, trajectories: [] };
    groups.push(group);
    rewarding.push(async () => {
      group.trajectories = await rewardGroup(settings, members, report);
    });
  }
  await runLimited(rewarding, settings.concurrency);
  return groups.filter(({ id, scenarioId, trajectories }) => {
    report.completed += trajectories.length;
    if (trajectories.length >= minimum) return true;
    report.droppedGroups.push({ id, scenarioId, survivors: trajectories.length });
    return false;
  });
}

async function converse(
  settings: RolloutSettings,
  request: GroupRequest,
  member: number,
  report: RolloutReport,
): Promise<Outcome | undefined> {
  const { value, failures } = await runGuarded(
    settings.environment,
    (environment) => converseOnce(settings, request, member, environment),
    { timeoutMs: settings.environmentTimeoutMs },
  );
  report.environmentFailures.push(...failures);
  if (!value) {
    report.environmentLost++;
    return undefined;
  }
  for (const chain of value.trajectory.chains) for (const turn of chain.turn) if (turn >= 0) report.sampledTokens++;
  report.replies += value.trajectory.turns.filter((turn) => turn.role === "assistant").length;
  return value;
}

async function converseOnce(
  settings: RolloutSettings,
  request: GroupRequest,
  member: number,
  environment: GuardedEnvironment,
): Promise<Outcome> {
  const { temperature, maxTokens } = settings;
  const session = settings.agent.startConversation({
    scenario: request.scenario,
    learn: settings.learn,
    ...(temperature !== undefined && { temperature }),
    ...(maxTokens !== undefined && { maxTokens }),
  });
  // The members of a group meet the same world; what differs is what the policy says.
  let state = await environment.reset(request.scenario, { seed: seedOf(request.seed, "environment") });
  let ended: Trajectory["ended"] | undefined;
  let environmentReward = 0;
  let truncated = false;
  const turnRewards = new Map<number, number>();
  while (!state.done && ended === undefined) {
    const turn = state.history.length;
    const reply = await session.reply(state.history, { seed: seedOf(request.seed, "member", member, "turn", turn) });
    if (reply.kind === "context-full") {
      ended = "context-full";
      break;
    }
    if (reply.finishReason === "length") truncated = true;
    const step = await environment.step(state, reply.turn);
    if (step.reward !== undefined) {
      turnRewards.set(turn, step.reward);
      environmentReward += step.reward;
    }
    state = step.state;
    if (!state.done && state.replies >= settings.maxTurns) ended = "max-turns";
  }
  const trajectory: Trajectory = {
    id: `${request.id}-m${member}`,
    scenarioId: request.scenario.id,
    turns: state.history.map((turn, index) => {
      const reward = turnRewards.get(index);
      return reward === undefined ? { ...turn } : { ...turn, reward };
    }),
    chains: session.chains(),
    reward: { score: 0, breakdown: {} },
    ended: ended ?? state.ended ?? "done",
    temperature: session.temperature,
    stub: session.stub,
    metadata: { ...state.metadata, truncated },
  };
  const { turns, metadata } = trajectory;
  return {
    trajectory,
    environmentReward,
    input: { turns, scenario: request.scenario, ended: trajectory.ended, metadata },
  };
}

/** The trajectories whose reward could be computed, with it. */
async function rewardGroup(
  settings: RolloutSettings,
  members: readonly Outcome[],
  report: RolloutReport,
): Promise<Trajectory[]> {
  const group = members.map((member) => member.input);
  const results = await Promise.all(
    members.map(async ({ input, trajectory, environmentReward }): Promise<Trajectory | undefined> => {
      try {
        // Its rewards on single turns count beside those of a reward function.
        checkResult("environment", { score: environmentReward, breakdown: {} });
        const result = settings.reward
          ? await rewardOne(settings.reward, input, { group, evaluation: !settings.learn }, settings.rewardTimeoutMs)
          : {
              score: environmentReward,
              breakdown: { environment: environmentReward },
              metadata: { fromEnvironment: true },
            };
        return { ...trajectory, reward: checkResult(settings.reward?.name ?? "environment", result) };
      } catch (error) {
        const notFinite = StatesetError.isInstance(error) && /not a finite number/.test(error.message);
        report.rewardFailures.push({
          trajectoryId: trajectory.id,
          scenarioId: trajectory.scenarioId,
          message: messageOf(error),
          notFinite,
        });
        return undefined;
      }
    }),
  );
  return results.filter((result) => result !== undefined);
}

function rewardOne(
  reward: RewardFunction,
  input: RewardInput,
  context: RewardContext,
  timeoutMs: number,
): Promise<RewardResult> {
  return withTimeout(
    (signal) => reward.compute(input, { ...context, signal }),
    timeoutMs,
    () => new StatesetError("REWARD_FAILED", `Reward "${reward.name}" gave no answer within ${timeoutMs} ms.`),
  );
}

import { isAbort, withDeadline } from "../abort.ts";
import type { Failure } from "../conversation/failure.ts";
import type { RewardResult, Trajectory } from "../conversation/trajectory.ts";
import type { Scenario } from "../environment/scenario.ts";
import { hasCode, messageOf, StatesetError } from "../error.ts";
import { checkResult } from "../reward/define-reward.ts";
import type { RewardContext, RewardFunction, RewardInput } from "../reward/reward-function.ts";
import type { Rollout } from "./rollout.ts";

/** The members with their rewards. One whose reward fails gets the failure instead; one that failed already stays as it is. */
export async function rewardGroup(
  { reward, settings, learn }: Rollout,
  scenario: Scenario,
  members: readonly Trajectory[],
  signal: AbortSignal | undefined,
): Promise<Trajectory[]> {
  const came = members.filter(({ failure }) => failure === undefined);
  const group = came.map(({ turns, ended, metadata }): RewardInput => ({ turns, scenario, ended, metadata }));
  const context: RewardContext = { group, evaluation: !learn };
  const rewarded = came.map(async (trajectory, i): Promise<Trajectory> => {
    // Rewards the environment gave on single turns count beside those of a reward function.
    const environment = environmentReward(trajectory);
    try {
      checkResult("environment", environment);
      const { rewardMs } = settings.timeouts;
      const result = reward ? await rewardOne(reward, group[i]!, context, rewardMs, signal) : environment;
      return { ...trajectory, reward: checkResult(reward?.name ?? "environment", result) };
    } catch (error) {
      if (isAbort(error) && signal?.aborted) throw error;
      return { ...trajectory, failure: failureOf(error, trajectory) };
    }
  });
  const results = await Promise.all(rewarded);
  return members.map((member) => (member.failure === undefined ? results[came.indexOf(member)]! : member));
}

function environmentReward({ turns }: Trajectory): RewardResult {
  const score = turns.reduce((sum, { reward = 0 }) => sum + reward, 0);
  return { score, breakdown: { environment: score }, turnsInScore: true };
}

/** How a reward's time limit travels to failureOf. */
class RewardTimeout extends StatesetError {}

function rewardOne(
  reward: RewardFunction,
  input: RewardInput,
  context: RewardContext,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): Promise<RewardResult> {
  return withDeadline((own) => reward.compute(input, { ...context, signal: own }), {
    timeoutMs,
    timedOut: () =>
      new RewardTimeout("REWARD_FAILED", `Reward "${reward.name}" gave no answer within ${timeoutMs} ms.`),
    signal,
    during: "while conversations were rewarded",
  });
}

function failureOf(error: unknown, { id, scenarioId }: Trajectory): Failure {
  const kind =
    error instanceof RewardTimeout ? "timeout" : hasCode(error, "REWARD_NOT_FINITE") ? "not-finite" : "threw";
  return { kind, during: "reward", scenarioId, trajectoryId: id, message: messageOf(error) };
}

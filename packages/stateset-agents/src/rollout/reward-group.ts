import { isAbort, Pauses, withDeadline } from "../abort.ts";
import { type Failure, mistakeIn } from "../conversation/failure.ts";
import type { RewardResult, Trajectory } from "../conversation/trajectory.ts";
import type { Scenario } from "../environment/scenario.ts";
import { hasCode, messageOf, StatesetError } from "../error.ts";
import { EnvironmentReward } from "../reward/builtin/environment.ts";
import { checkResult } from "../reward/define-reward.ts";
import { stoppable } from "../reward/reference-scorer.ts";
import type { RewardContext, RewardFunction, RewardInput, ScoreTurns } from "../reward/reward-function.ts";
import type { Unrewarded } from "./episode.ts";
import type { Played } from "./play.ts";
import type { Rollout } from "./rollout.ts";

/** The members with their rewards; those that failed before or whose reward failed have none, and say how. */
export async function rewardGroup(
  { reward, settings, learn, scorer }: Rollout,
  scenario: Scenario,
  members: readonly Played[],
  signal: AbortSignal | undefined,
): Promise<{ members: (Trajectory | Unrewarded)[]; notices: string[] }> {
  const came = members.filter(({ trajectory }) => trajectory.failure === undefined);
  const group = came.map(
    ({ trajectory: { turns, ended, metadata } }): RewardInput => ({ turns, scenario, ended, metadata }),
  );
  const notices: string[] = [];
  const score = scorer?.forGroup(
    came.map(({ trajectory }) => trajectory),
    signal,
  );
  // What a stub says nobody guards: its scores mean nothing.
  const warn = (message: string) => void (score && notices.push(message));
  // Of the whole group: what one waits for, such as the scores of all or a comparison of all, the others wait for, too.
  const pauses = new Pauses();
  const context: RewardContext = { group, evaluation: !learn, ...(score && { score }), untimed: pauses.untimed, warn };
  const { rewardMs } = settings.timeouts;
  const rewarded = await Promise.all(
    came.map(async ({ trajectory, reward: own }, i): Promise<Trajectory | Unrewarded> => {
      try {
        const environment = checkResult("environment", trajectory, await environmentReward.compute(trajectory));
        const given = own ?? environment;
        const result = reward
          ? await rewardOne(reward, group[i]!, context, { timeoutMs: rewardMs, pauses, signal })
          : given;
        return { ...trajectory, reward: checkResult(reward?.name ?? "environment", trajectory, result) };
      } catch (error) {
        if (isAbort(error) && signal?.aborted) throw error;
        return { ...trajectory, failure: failureOf(error, trajectory) };
      }
    }),
  );
  return { members: members.map((member) => rewarded[came.indexOf(member)] ?? member.trajectory), notices };
}

/** The reward where there is no other. */
const environmentReward = new EnvironmentReward();

/** How a reward's time limit travels to failureOf. */
class RewardTimeout extends StatesetError {}

function rewardOne(
  reward: RewardFunction,
  input: RewardInput,
  context: RewardContext,
  { timeoutMs, pauses, signal }: { timeoutMs: number; pauses: Pauses; signal: AbortSignal | undefined },
): Promise<RewardResult> {
  const { score } = context;
  const untimed =
    (scoreOf: ScoreTurns): ScoreTurns =>
    (turns) =>
      pauses.untimed(() => scoreOf(turns));
  const contextFor = (own: AbortSignal) => ({
    ...context,
    signal: own,
    ...(score && { score: untimed(stoppable(score, own)) }),
  });
  return withDeadline((own) => reward.compute(input, contextFor(own)), {
    timeoutMs,
    pauses,
    timedOut: () =>
      new RewardTimeout("REWARD_FAILED", `Reward "${reward.name}" gave no answer within ${timeoutMs} ms.`),
    signal,
    during: "while conversations were rewarded",
  });
}

function failureOf(error: unknown, { id, scenarioId }: Unrewarded): Failure {
  const kind =
    error instanceof RewardTimeout ? "timeout" : hasCode(error, "REWARD_NOT_FINITE") ? "not-finite" : "threw";
  const mistake = mistakeIn(error);
  return {
    kind,
    during: "reward",
    scenarioId,
    trajectoryId: id,
    message: messageOf(error),
    ...(mistake !== undefined && { mistake }),
  };
}

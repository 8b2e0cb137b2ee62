/** What goes wrong in a step, said once per step and kind. */

import { type Failure, isAnswer } from "../conversation/failure.ts";
import { countByPart } from "../conversation/part-failures.ts";
import { counted } from "../counted.ts";
import { StatesetError } from "../error.ts";
import { fullContextText } from "../evaluation/full-context.ts";
import { notFiniteError, tooManySkipped } from "../learning/finite.ts";
import { warmupSteps } from "../learning/learner.ts";
import { isShaped, type Sampling } from "../policy/policy.ts";
import { allFailed, failuresBySource, lostBySource } from "../rollout/report.ts";
import { evaluationLines } from "../run/evaluation-metrics.ts";
import type { RewardEvaluation, WarningKind } from "../run/event.ts";
import type { Metrics } from "../run/metrics.ts";
import type { Collected } from "./collect.ts";
import type { Loop, LoopState } from "./loop.ts";

/** Steps in a row that may be lost whole before the run stops. */
const lostLimit = 3;

export async function reportFailures(loop: Loop, step: number, collected: Collected): Promise<void> {
  const { run, state, rollout } = loop;
  const { report, groups } = collected;
  await reportFullContext(loop, step, collected);
  const played = groups.flatMap(({ trajectories }) => trajectories);
  const rewarded =
    rollout.reward !== undefined ||
    rollout.judged === true ||
    played.some(({ turns }) => turns.some((turn) => turn.reward !== undefined));
  if (step === 1 && played.length > 0 && !rewarded) {
    const message =
      "Nothing rewards these conversations: there is no `reward`, and the environment gave none for any reply. Give train() a reward.";
    await run.warn({ kind: "no-reward", message }, step);
  }
  const { droppedGroups } = report;
  const { environment, agent, reward } = failuresBySource(report);
  if (agent.length > 0) {
    const messages = messagesOf(agent);
    const message = `Step ${step}: the agent's hooks failed ${times(messages)}; those conversations were lost. ${examples(messages)}`;
    await run.warn({ kind: "hook-failed", message }, step);
  }
  if (environment.length > 0) {
    const messages = messagesOf(environment);
    const lost = lostBySource(report).environment;
    const who = environment.some(({ during }) => during === "harness") ? "harness" : "environment";
    const message = `Step ${step}: the ${who} failed ${times(messages)}; ${lost === 1 ? "1 conversation was" : `${lost} conversations were`} lost${scoredText(report)}. ${examples(messages)}`;
    await run.warn({ kind: "environment-failed", message }, step);
  }
  if (reward.length > 0) {
    const messages = messagesOf(reward);
    const message = `Step ${step}: the reward failed ${times(messages)}; those conversations were left out. ${examples(messages)}`;
    await run.warn({ kind: "reward-failed", message }, step);
  }
  const said = (name: string) => report.partFailures.filter((failure) => failure.name === name).map(messageIn);
  await reportFailedParts({ run, state }, step, countByPart(report.partFailures), {
    of: counted(report.completed, "conversation"),
    why: (name) => ` ${examples(said(name))}`,
    metric: "partFailures",
  });
  const once = async (kind: WarningKind, messages: readonly string[]) => {
    for (const message of messages) {
      if (state.notices.includes(message)) continue;
      state.notices.push(message);
      await run.warn({ kind, message }, step);
    }
  };
  await once("reward-unguarded", report.notices);
  await once("sampling-overridden", report.overridden);
  if (droppedGroups.length > 0) {
    const left = groups.length === 0 ? " Nothing is left to learn from in this step." : "";
    const [some, were] =
      droppedGroups.length === 1 ? ["1 group", "was"] : [counted(droppedGroups.length, "group"), "were"];
    const message = `Step ${step}: ${some} had too few conversations left and ${were} dropped.${left}`;
    await run.warn({ kind: "group-dropped", message }, step);
  }
}

/** Once a part, with how often it failed then; how it goes on is in the metrics. */
async function reportFailedParts(
  { run, state }: Pick<Loop, "run" | "state">,
  step: number,
  counts: Readonly<Record<string, number>>,
  { of, why, metric }: { of: string; why: (name: string) => string; metric: string },
): Promise<void> {
  for (const [name, count] of Object.entries(counts)) {
    if (state.failedParts.includes(name)) continue;
    state.failedParts.push(name);
    const message = `Step ${step}: the part "${name}" of the reward failed in ${count} of ${of}; they were scored without it, or with the score that stands in for it.${why(name)} From now on only the metric ${metric}/${name} tells.`;
    await run.warn({ kind: "reward-part-failed", message }, step);
  }
}

async function reportFullContext(loop: Loop, step: number, { groups, refused }: Collected): Promise<void> {
  const { run, state, config, learner } = loop;
  if (state.notices.includes("context-full")) return;
  const text = fullContextText([...groups, ...refused], learner.policy, config.maxTurns);
  if (text === undefined) return;
  state.notices.push("context-full");
  const message = `Step ${step}: ${text} From now on only the metric contextFull tells.`;
  await run.warn({ kind: "context-full", message }, step);
}

/** What conversations that failed at a reply count, in words. */
function scoredText({ failed }: Collected["report"]): string {
  if (failed.length === 0) return "";
  const scores = [...new Set(failed.map(({ reward }) => reward.score))].join(" or ");
  return `, and ${failed.length} in which it threw at a reply count with a reward of ${scores} (onFailure)`;
}

function messageIn({ message, scenarioId }: { message: string; scenarioId: string }): string {
  return `${message} (scenario ${scenarioId})`;
}

/** Held-out scenarios that are not what they are for, said before the first step. */
export async function reportHeldOut({ run }: Loop, problems: readonly string[]): Promise<void> {
  for (const message of problems) await run.warnAtStart({ kind: "held-out", message });
}

/** Options that are allowed and yet hardly meant, said before the first step. */
export async function reportUnusual({ learner, config, run }: Loop, sampling: Sampling): Promise<void> {
  const { algorithm, policy } = learner;
  const warn = (message: string) => run.warnAtStart({ kind: "options-unusual", message });
  const { singlePass, name } = algorithm;
  const warmup = warmupSteps(algorithm, config.steps);
  if (warmup >= config.steps)
    await warn(
      `All ${config.steps} steps are the warm-up of ${name}'s value head (valueWarmupSteps ${warmup}): the policy will not move.`,
    );
  if (singlePass && config.updatesPerRollout > 1)
    await warn(
      `${name} has no importance ratio, so the ${config.updatesPerRollout} passes over a rollout move the policy without a bound. Use updatesPerRollout 1, or an algorithm with a clip.`,
    );
  const { offPolicyMask, updatesPerRollout, minibatches } = config;
  // The search of a trust region looks at the loss where the policy would be.
  const moves = updatesPerRollout > 1 || minibatches > 1 || algorithm.trustRegion !== undefined;
  if (offPolicyMask !== undefined && !moves && policy.capabilities.exact && !isShaped(sampling) && !config.constrain)
    await warn(
      "offPolicyMask has nothing to act on: one update a rollout sees only the policy that sampled. Set updatesPerRollout or minibatches above 1, or leave it out.",
    );
}

/** Sampling that the loss does not know of, said before the first step. */
export async function reportMismatch({ learner, run, config }: Loop, sampling: Sampling): Promise<void> {
  const { policy, algorithm } = learner;
  const { correction } = algorithm.options;
  const shaped = isShaped(sampling) || config.constrain;
  if ((policy.capabilities.exact && !shaped) || correction) return;
  const why = policy.capabilities.exact
    ? "The agent's sampling is shaped by more than its temperature (top-p, top-k, penalties, constrain or the like)"
    : `${policy.model.name} does not sample with the arithmetic it is trained with`;
  const how =
    correction === false ? "`correction` is off" : `${algorithm.name} has no \`correction\` that would make up for it`;
  const message = `${why}, and ${how}: the policy learns as if it had drawn from its whole distribution. The metric mismatch says how far off that is.`;
  await run.warnAtStart({ kind: "sampling-mismatch", message });
}

/** What the numbers of a step say that nobody would look for in them. */
export async function reportLearning(loop: Loop, step: number, metrics: Readonly<Metrics>): Promise<void> {
  await reportFirstRatio(loop, step, metrics);
  // All conversations of a group begin from one state, so the first step shows whether the environment tells any.
  if (step !== 1 || metrics.sharedStates !== 0) return;
  const message =
    'credit: "state" compares nothing by state: no two replies of a group began from the same one. The turns of your environment need metadata.stateHash, as those of a stateful TaskEnvironment have it; as it is, this is credit by episode.';
  await loop.run.warn({ kind: "options-unusual", message });
}

/** On an engine whose sampling is its scoring, the first ratio of a step is 1 to the bit; anything else is a fault somewhere. */
async function reportFirstRatio(loop: Loop, step: number, { firstRatioMax = 1 }: Readonly<Metrics>): Promise<void> {
  const { learner, run, state } = loop;
  if (state.ratioReported) return;
  // One that is not a number has been said already.
  if (!learner.policy.capabilities.exact || firstRatioMax === 1 || !Number.isFinite(firstRatioMax)) return;
  const message = `Step ${step}: the policy that learns is not the one that sampled (the largest first ratio is ${firstRatioMax.toPrecision(6)}, not 1). Were the weights changed during the rollouts?`;
  state.ratioReported = true;
  await run.warn({ kind: "first-ratio", message }, step);
}

export async function reportEvaluation(
  { run, state }: Pick<Loop, "run" | "state">,
  result: RewardEvaluation,
): Promise<void> {
  const { step, scenarios, ...fact } = result;
  run.recordEvaluation(evaluationLines(result));
  await run.tell("evaluation", step, fact, { scenarios, stop: run.stop });
  const { failed, lost, failures, reward, set, partFailures = {} } = result;
  const samples = scenarios.reduce((sum, scenario) => sum + scenario.samples, 0);
  const of = `${counted(samples, "conversation")} of the evaluation`;
  await reportFailedParts({ run, state }, step, partFailures, { of, why: () => "", metric: `${set}/partFailures` });
  if (failed + lost === 0) return;
  const said = [
    ...(failed > 0 ? [`in ${failed} the environment threw at a reply, which counts (onFailure)`] : []),
    ...(lost > 0
      ? [`${lost} were lost ${reward.count === 0 ? "and nothing was left to measure" : "and are in no number"}`]
      : []),
  ];
  const message = `Step ${step}: of the conversations of the evaluation ${said.join("; ")}. ${examples(failures)}`;
  await run.warn({ kind: "evaluation-failed", message }, step);
}

/** Says that an update was not made because something was not finite. */
export async function reportSkipped({ state, run }: Loop, step: number, what: string): Promise<void> {
  const message = `Step ${step}: ${what} was NaN or infinite; the update was skipped (${state.notFinite} so far).`;
  await run.warn({ kind: "not-finite", message }, step);
}

export function countLost(state: LoopState, { groups, refused, report }: Collected): void {
  const played = [...groups, ...refused, ...report.droppedGroups].flatMap(({ trajectories }) => trajectories);
  state.lostInARow = played.some(({ ended }) => ended !== "failed") ? 0 : state.lostInARow + 1;
}

/**
 * Why the run cannot go on, if it cannot. The counters start again, since the checkpoint that is saved next is for whoever has repaired
 * what was wrong: with the counters as they are, it would stop again at once.
 */
export function stopOf({ state, run, config }: Loop, step: number, { report }: Collected): StatesetError | undefined {
  const { lostInARow } = state;
  const skipped = tooManySkipped(state);
  // Code through which nothing has come yet is as wrong in the next step; what a machine or a server did, or an environment said to a
  // reply, may pass.
  const wrong = lostInARow === step && report.failures.some((one) => one.mistake !== undefined && !isAnswer(one));
  // A run too short for the limit, of which nothing came, is no success either.
  const nothing = lostInARow === step && step === config.steps;
  if (!skipped && !wrong && !nothing && lostInARow < lostLimit) return undefined;
  const [saved, goOn] =
    run.dir !== undefined && !nothing
      ? ["A checkpoint was saved.", "resume"]
      : [nothing ? "Nothing was learnt." : "Nothing was saved, since the run keeps no files.", "run it again"];
  Object.assign(state, { notFiniteInARow: 0, lostInARow: 0 });
  if (skipped) {
    const hint = `${saved} Lower the learning rate, or check the reward for NaN, then ${goOn}.`;
    return notFiniteError("loss, gradient or reward", step, hint);
  }
  if (wrong) return allFailed(report, `step ${step}`);
  const { environment, agent, reward } = failuresBySource(report);
  const [code, what, failures] =
    reward.length > 0
      ? (["REWARD_FAILED", "reward", reward] as const)
      : agent.length > 0
        ? (["HOOK_FAILED", "agent's hooks", agent] as const)
        : (["ENVIRONMENT_FAILED", driverOf(environment), environment] as const);
  const where = nothing ? counted(step, "step") : `${lostLimit} steps in a row (step ${step})`;
  const mistake = failures.find((one) => one.mistake !== undefined)?.mistake;
  const message = `No conversation came through in ${where}. ${examples(messagesOf(failures))}${mistake === undefined ? "" : `\n${mistake}`}`;
  return new StatesetError(code, message, { hint: `${saved} Repair the ${what}, then ${goOn}.` });
}

function driverOf(failures: readonly Failure[]): "harness" | "environment" {
  return failures.some(({ during }) => during === "harness") ? "harness" : "environment";
}

function messagesOf(failures: readonly Failure[]): string[] {
  return failures.map((failure) =>
    ["fresh", "reset", "step"].includes(failure.during)
      ? `${failure.during}(): ${failure.message}`
      : messageIn(failure),
  );
}

/** Without a reference there is nothing to measure a KL against. */
export async function dropKl({ state, run }: Loop, step: number): Promise<void> {
  state.controls.klCoefficient = 0;
  const message =
    "A callback asked for a KL penalty, but the run keeps no reference. Set adjustsKl on it, or kl.coefficient above 0.";
  await run.warn({ kind: "no-reference", message }, step);
}

function times(list: readonly unknown[]): string {
  return list.length === 1 ? "once" : `${list.length} times`;
}

/** The three most frequent messages with their counts. */
function examples(messages: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const message of messages) counts.set(message, (counts.get(message) ?? 0) + 1);
  const frequent = [...counts].sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1)).slice(0, 3);
  return `${frequent.map(([message, count]) => `${count}× ${message.replace(/\.(?=$| \(scenario)/, "")}`).join("; ")}.`;
}

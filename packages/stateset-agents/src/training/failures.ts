/** What goes wrong in a step, said once per step and kind. */
import { StatesetError } from "../error.ts";
import type { EvaluationResult } from "../run/events.ts";
import type { Emitter } from "./callbacks.ts";
import type { Collected } from "./collect.ts";
import type { Loop, LoopState } from "./loop.ts";

/** Updates in a row that may be skipped, and steps in a row that may be lost whole, before the run stops. */
export const notFiniteLimit = 3;
const lostLimit = 3;

export async function reportFailures(emitter: Emitter, step: number, { report, groups }: Collected): Promise<void> {
  const { environmentFailures, environmentLost, rewardFailures, droppedGroups } = report;
  if (environmentFailures.length > 0) {
    const messages = environmentMessages(report);
    const message = `Step ${step}: the environment failed ${times(messages)}; ${environmentLost} conversations were lost. ${examples(messages)}`;
    await emitter.warn({ step, kind: "environment-failed", message });
  }
  if (rewardFailures.length > 0) {
    const messages = rewardMessages(report);
    const message = `Step ${step}: the reward failed ${times(messages)}; those conversations were left out. ${examples(messages)}`;
    await emitter.warn({ step, kind: "reward-failed", message });
  }
  if (droppedGroups.length > 0) {
    const left = groups.length === 0 ? " Nothing is left to learn from in this step." : "";
    const [some, were] = droppedGroups.length === 1 ? ["1 group", "was"] : [`${droppedGroups.length} groups`, "were"];
    const message = `Step ${step}: ${some} had too few conversations left and ${were} dropped.${left}`;
    await emitter.warn({ step, kind: "group-dropped", message });
  }
}

/** Options that are allowed and yet hardly meant, said before the first step. */
export async function reportUnusual({ algorithm, config, emitter, state: { step } }: Loop): Promise<void> {
  const warn = (message: string) => emitter.warn({ step, kind: "options-unusual", message });
  const { valueWarmupSteps = 0, singlePass, name } = algorithm;
  if (valueWarmupSteps >= config.steps)
    await warn(
      `All ${config.steps} steps are the warm-up of ${name}'s value head (valueWarmupSteps ${valueWarmupSteps}): the policy will not move.`,
    );
  if (singlePass && config.updatesPerRollout > 1)
    await warn(
      `${name} has no importance ratio, so the ${config.updatesPerRollout} passes over a rollout move the policy without a bound. Use updatesPerRollout 1, or an algorithm with a clip.`,
    );
}

export async function reportEvaluation(emitter: Emitter, result: EvaluationResult): Promise<void> {
  await emitter.emit("onEvaluation", result);
  const { step, failed, failures, reward } = result;
  if (failed === 0) return;
  const left = reward.count === 0 ? "and nothing was left to measure" : "and are not in its numbers";
  const message = `Step ${step}: ${failed} conversations of the evaluation failed ${left}. ${examples(failures)}`;
  await emitter.warn({ step, kind: "evaluation-failed", message });
}

/** Counts an update that was not made because something was not finite. */
export async function skipped({ state, emitter }: Loop, step: number, what: string): Promise<void> {
  state.notFinite++;
  state.notFiniteInARow++;
  const message = `Step ${step}: ${what} was NaN or infinite; the update was skipped (${state.notFinite} so far).`;
  await emitter.warn({ step, kind: "not-finite", message });
}

export function countLost(state: LoopState, { groups, refused }: Collected): void {
  state.lostInARow = groups.length + refused > 0 ? 0 : state.lostInARow + 1;
}

/**
 * Why the run cannot go on, if it cannot. The counters start again, since the checkpoint that is saved next is for whoever has repaired
 * what was wrong: with the counters as they are, it would stop again at once.
 */
export function stopOf({ state, files }: Loop, step: number, { report }: Collected): StatesetError | undefined {
  const { notFiniteInARow, lostInARow } = state;
  const [saved, goOn] = files
    ? ["A checkpoint was saved.", "resume"]
    : ["Nothing was saved, since the run keeps no files.", "run it again"];
  if (notFiniteInARow < notFiniteLimit && lostInARow < lostLimit) return undefined;
  Object.assign(state, { notFiniteInARow: 0, lostInARow: 0 });
  if (notFiniteInARow >= notFiniteLimit) {
    const message = `The loss, gradient or reward was not finite in ${notFiniteLimit} updates in a row (step ${step}).`;
    const hint = `${saved} Lower the learning rate, or check the reward for NaN, then ${goOn}.`;
    return new StatesetError("NOT_FINITE", message, { hint });
  }
  const byReward = report.rewardFailures.length > 0;
  const [code, what] = byReward
    ? (["REWARD_FAILED", "reward"] as const)
    : (["ENVIRONMENT_FAILED", "environment"] as const);
  const message = `No conversation came through in ${lostLimit} steps in a row (step ${step}). ${examples(byReward ? rewardMessages(report) : environmentMessages(report))}`;
  return new StatesetError(code, message, { hint: `${saved} Repair the ${what}, then ${goOn}.` });
}

function environmentMessages({ environmentFailures }: Collected["report"]): string[] {
  return environmentFailures.map(({ during, message }) => `${during}(): ${message}`);
}

function rewardMessages({ rewardFailures }: Collected["report"]): string[] {
  return rewardFailures.map(({ message, scenarioId }) => `${message} (scenario ${scenarioId})`);
}

/** Without a reference there is nothing to measure a KL against. */
export async function dropKl({ state, emitter }: Loop, step: number): Promise<void> {
  state.controls.klCoefficient = 0;
  const message =
    "A callback asked for a KL penalty, but the run keeps no reference. Set adjustsKl on it, or kl.coefficient above 0.";
  await emitter.warn({ step, kind: "no-reference", message });
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

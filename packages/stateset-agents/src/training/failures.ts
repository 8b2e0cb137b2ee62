/** What goes wrong in a step, said once per step and kind. */
import type { Emitter } from "./callbacks.ts";
import type { Collected } from "./collect.ts";
import type { Loop } from "./loop.ts";

export async function reportFailures(emitter: Emitter, step: number, { report, groups }: Collected): Promise<void> {
  const { environmentFailures, environmentLost, rewardFailures, droppedGroups } = report;
  if (environmentFailures.length > 0) {
    const messages = environmentFailures.map((failure) => `${failure.during}(): ${failure.message}`);
    const message = `Step ${step}: the environment failed ${times(messages)}; ${environmentLost} conversations were lost. ${examples(messages)}`;
    await emitter.warn({ step, kind: "environment-failed", message });
  }
  if (rewardFailures.length > 0) {
    const messages = rewardFailures.map((failure) => `${failure.message} (scenario ${failure.scenarioId})`);
    const message = `Step ${step}: the reward failed ${times(messages)}; those conversations were left out. ${examples(messages)}`;
    await emitter.warn({ step, kind: "reward-failed", message });
  }
  if (droppedGroups.length > 0) {
    const left = groups.length === 0 ? " Nothing is left to learn from in this step." : "";
    const message = `Step ${step}: ${droppedGroups.length} groups had fewer than two conversations left and were dropped.${left}`;
    await emitter.warn({ step, kind: "group-dropped", message });
  }
}

/** Counts an update that was not made because something was not finite. */
export async function skipped({ state, emitter }: Loop, step: number, what: string): Promise<void> {
  state.notFinite++;
  state.notFiniteInARow++;
  const message = `Step ${step}: ${what} was NaN or infinite; the update was skipped (${state.notFinite} so far).`;
  await emitter.warn({ step, kind: "not-finite", message });
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
  return `${frequent.map(([message, count]) => `${count}× ${message}`).join("; ")}.`;
}

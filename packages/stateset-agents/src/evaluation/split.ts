import { StatesetError } from "../error.ts";
import { createRandom } from "../random.ts";

export interface HeldOut<T> {
  /** Chooses the best checkpoint. */
  selection: T[];
  /** Gives the number that is reported. Never looked at while choosing, or the best of many would look better than it is. */
  report: T[];
}

/** Splits held-out scenarios into one set that selects the best checkpoint and one that is reported. */
export function splitHeldOut<T>(
  scenarios: readonly T[],
  options: { seed?: number; selectionShare?: number } = {},
): HeldOut<T> {
  const { seed = 0, selectionShare = 0.5 } = options;
  if (scenarios.length < 2) {
    throw new StatesetError("INVALID_DATA", `Splitting held-out scenarios needs at least 2, got ${scenarios.length}.`, {
      hint: "Add held-out scenarios, or evaluate on one set and select no best checkpoint.",
    });
  }
  const shuffled = createRandom(seed).shuffled(scenarios);
  const cut = Math.min(scenarios.length - 1, Math.max(1, Math.round(scenarios.length * selectionShare)));
  return { selection: shuffled.slice(0, cut), report: shuffled.slice(cut) };
}

/** The step with the highest selection score; the earlier of two equal ones. Undefined when nothing was scored. */
export function bestStep(scores: readonly { step: number; score: number }[]): number | undefined {
  let best: { step: number; score: number } | undefined;
  for (const entry of scores) {
    if (!Number.isFinite(entry.score)) continue;
    if (best === undefined || entry.score > best.score || (entry.score === best.score && entry.step < best.step))
      best = entry;
  }
  return best?.step;
}

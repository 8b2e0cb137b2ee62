/** The guard against NaN and infinity that every learner has: an update that is not finite is skipped, three in a row end the run. */
import { StatesetError } from "../error.ts";

/** Plain data, kept in checkpoints. */
export interface SkippedUpdates {
  /** In all, and since the last good one. */
  notFinite: number;
  notFiniteInARow: number;
}

const limit = 3;

export function noteSkipped(state: SkippedUpdates): void {
  state.notFinite++;
  state.notFiniteInARow++;
}

export function noteApplied(state: SkippedUpdates): void {
  state.notFiniteInARow = 0;
}

export function tooManySkipped({ notFiniteInARow }: SkippedUpdates): boolean {
  return notFiniteInARow >= limit;
}

/** `what` was not finite: "loss", "loss, gradient or reward". */
export function notFiniteError(what: string, step: number, hint: string): StatesetError {
  const message = `The ${what} was not finite in ${limit} updates in a row (step ${step}).`;
  return new StatesetError("NOT_FINITE", message, { hint });
}

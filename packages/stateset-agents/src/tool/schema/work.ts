/**
 * What looking at a stranger's schema, or at a value through it, may cost. Schemas can make that exponential in their own length (two
 * references to one that has two references to one …), so the work is counted, and what is beyond the limit is an error.
 */
let left = Number.POSITIVE_INFINITY;

/** About a second. */
const most = 3e7;

/** Within limitWork() it throws once the limit is met. */
export function spend(work: number): void {
  left -= work;
  if (left < 0) throw new RangeError("it takes too long to check");
}

export function limitWork<T>(run: () => T): T {
  left = most;
  try {
    return run();
  } finally {
    left = Number.POSITIVE_INFINITY;
  }
}

/**
 * Stops calling an endpoint that keeps failing. Closed until `failures` calls fail in a row, then open for `resetMs`;
 * after that one trial call is let through: its success closes the circuit, its failure opens it again.
 */
export interface Breaker {
  /** 0 when a call may go ahead (and is then owed a `report`), else the milliseconds until the next trial. */
  waitMs(): number;
  report(ok: boolean): void;
  /** A call that was let through but says nothing of the endpoint's health (aborted by the caller, or told to come later). */
  withdraw(): void;
  /** How often it opened. */
  readonly opened: number;
  /** Whether calls wait; until a trial call succeeds. */
  readonly open: boolean;
}

/** How long others wait for a trial call before they ask again. */
export const trialMs = 1000;

/** By what they stand before. A judge or webhook that nobody holds any more is forgotten with its breaker. */
const breakers = new Set<{ target: string; breaker: WeakRef<Breaker> }>();

/** For each target that calls went to in this process, whether a breaker before it is open, and how often one opened. */
export function breakerStates(): { target: string; open: boolean; opened: number }[] {
  const states = new Map<string, { open: boolean; opened: number }>();
  for (const entry of breakers) {
    const breaker = entry.breaker.deref();
    const { open, opened } = states.get(entry.target) ?? { open: false, opened: 0 };
    if (breaker) states.set(entry.target, { open: open || breaker.open, opened: opened + breaker.opened });
    else breakers.delete(entry);
  }
  return [...states].map(([target, state]) => ({ target, ...state }));
}

/** `target` is shown in metrics: an address without its secrets. */
export function createBreaker(
  options: { failures: number; resetMs: number },
  now: () => number,
  target: string,
): Breaker {
  let inARow = 0;
  let openUntil = 0;
  let trial = false;
  let opened = 0;
  const breaker: Breaker = {
    waitMs() {
      if (openUntil === 0) return 0;
      const left = openUntil - now();
      if (left > 0) return left;
      // The trial says soon what is to be done.
      if (trial) return Math.min(options.resetMs, trialMs);
      trial = true;
      return 0;
    },
    report(ok) {
      trial = false;
      inARow = ok ? 0 : inARow + 1;
      if (ok) openUntil = 0;
      else if (inARow >= options.failures) {
        openUntil = now() + options.resetMs;
        opened++;
      }
    },
    withdraw() {
      trial = false;
    },
    get opened() {
      return opened;
    },
    get open() {
      return openUntil !== 0;
    },
  };
  // Those that are gone go first, so that a process that makes judges for ever does not fill up with what is left of them.
  breakerStates();
  breakers.add({ target, breaker: new WeakRef(breaker) });
  return breaker;
}

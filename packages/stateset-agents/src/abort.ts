/** Stopping work from outside: signals, time limits, and the error that says so. */
import { setMaxListeners } from "node:events";
import { StatesetError } from "./error.ts";

export function isAbort(error: unknown): boolean {
  return StatesetError.isInstance(error) && error.code === "ABORTED";
}

/** `what` completes "Stopped …": "while sampling", "after 3 steps". */
export function throwIfAborted(signal: AbortSignal | undefined, what: string): void {
  if (signal?.aborted) throw new StatesetError("ABORTED", `Stopped ${what}.`, { cause: signal.reason });
}

/** Who waits for a signal, and the one listener that tells them. */
const waiting = new WeakMap<AbortSignal, { acts: Set<() => void>; tell: () => void }>();

/**
 * Calls `act` when the signal fires, or at once if it has; what is returned lets go of it. However many wait, a signal gets one
 * listener: hundreds of conversations may share a user's, and Node takes more than ten for a leak and warns.
 */
export function onAbort(signal: AbortSignal | undefined, act: () => void): () => void {
  if (!signal) return () => {};
  if (signal.aborted) {
    act();
    return () => {};
  }
  let entry = waiting.get(signal);
  if (!entry) {
    const acts = new Set<() => void>();
    const tell = () => {
      for (const act of acts) act();
    };
    entry = { acts, tell };
    waiting.set(signal, entry);
    signal.addEventListener("abort", entry.tell, { once: true });
  }
  const { acts, tell } = entry;
  acts.add(act);
  return () => {
    acts.delete(act);
    if (acts.size > 0 || waiting.get(signal)?.acts !== acts) return;
    signal.removeEventListener("abort", tell);
    waiting.delete(signal);
  };
}

/** A signal that fires with any of `sources`, and a way to let go of them. */
export interface LinkedSignal {
  signal: AbortSignal;
  unlink(): void;
  /** Fires it by itself. */
  abort(): void;
}

/** AbortSignal.any() would do, but on Node 20 it stays known to its sources for as long as they live, however short its own work is. */
export function linkSignals(...sources: readonly (AbortSignal | undefined)[]): LinkedSignal {
  const controller = new AbortController();
  // Hundreds of conversations may listen to it; that is no leak to warn of. Not 0, which means the same: Node 20 then takes the signal
  // for none when undici asks for its limit, and no request that goes by a proxy or by safeFetch() could be sent with it.
  setMaxListeners(Number.POSITIVE_INFINITY, controller.signal);
  const links = sources.map((source) => onAbort(source, () => controller.abort(source!.reason)));
  return {
    signal: controller.signal,
    abort: () => controller.abort(),
    unlink: () => {
      for (const letGo of links) letGo();
    },
  };
}

/** Clocks that stand still while something is waited for that is not the doing of whoever is timed. */
export class Pauses {
  readonly #clocks = new Set<{ go(): void; stop(): void }>();
  #waits = 0;

  readonly untimed = async <T>(wait: () => Promise<T>): Promise<T> => {
    if (this.#waits++ === 0) for (const clock of this.#clocks) clock.stop();
    try {
      return await wait();
    } finally {
      if (--this.#waits === 0) for (const clock of this.#clocks) clock.go();
    }
  };

  /** Calls `timeUp` when so much time has gone by outside of pauses; what is returned lets go of it. */
  countDown(timeoutMs: number, timeUp: () => void): () => void {
    let left = timeoutMs;
    let since = 0;
    let timer: NodeJS.Timeout | undefined;
    const clock = {
      go() {
        since = performance.now();
        timer = setTimeout(timeUp, Math.max(0, left));
      },
      stop() {
        clearTimeout(timer);
        left -= performance.now() - since;
      },
    };
    this.#clocks.add(clock);
    if (this.#waits === 0) clock.go();
    return () => {
      clearTimeout(timer);
      this.#clocks.delete(clock);
    };
  }
}

export interface Deadline {
  /** Left out: no limit. */
  timeoutMs?: number;
  /** What does not count into it. */
  pauses?: Pauses;
  /** What to reject with when time is up. */
  timedOut?: () => Error;
  signal?: AbortSignal | undefined;
  /** Completes "Stopped …" for when the signal fires. */
  during?: string;
}

/**
 * Runs foreign work that may hang. When time is up or the signal fires it is told through its own signal and otherwise left alone:
 * the promise rejects at once, and what the work still does is nobody's business.
 */
export async function withDeadline<T>(
  work: (signal: AbortSignal) => T | Promise<T>,
  { timeoutMs, pauses = new Pauses(), timedOut, signal, during = "on request" }: Deadline,
): Promise<T> {
  throwIfAborted(signal, during);
  const own = new AbortController();
  let stopClock: (() => void) | undefined;
  let letGo: (() => void) | undefined;
  const interruption = new Promise<never>((_, reject) => {
    const end = (error: Error) => {
      reject(error);
      own.abort();
    };
    const late = () => end(timedOut?.() ?? new Error(`no answer within ${timeoutMs} ms`));
    if (timeoutMs !== undefined) stopClock = pauses.countDown(timeoutMs, late);
    const stopped = () => end(new StatesetError("ABORTED", `Stopped ${during}.`, { cause: signal?.reason }));
    letGo = onAbort(signal, stopped);
  });
  const answer = (async () => work(own.signal))();
  // Whichever loses the race may still reject later; that must not become an unhandled rejection.
  answer.catch(() => {});
  interruption.catch(() => {});
  try {
    return await Promise.race([answer, interruption]);
  } finally {
    stopClock?.();
    letGo?.();
  }
}

/** Waits for foreign work however long it takes, but once the signal has fired only `graceMs` longer. */
export async function withGrace<T>(
  work: () => T | Promise<T>,
  signal: AbortSignal | undefined,
  graceMs: number,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let letGo: (() => void) | undefined;
  const late = new Promise<never>((_, reject) => {
    letGo = onAbort(signal, () => {
      timer = setTimeout(
        () => reject(new Error(`still at work ${graceMs / 1000} s after it was told to stop`)),
        graceMs,
      );
    });
  });
  const answer = (async () => work())();
  answer.catch(() => {});
  late.catch(() => {});
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
    letGo?.();
  }
}

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
  // Hundreds of conversations may listen to it; that is no leak to warn of.
  setMaxListeners(0, controller.signal);
  const known = sources.filter((source) => source !== undefined);
  const listeners = known.map((source) => {
    const follow = () => controller.abort(source.reason);
    if (source.aborted) follow();
    else source.addEventListener("abort", follow, { once: true });
    return () => source.removeEventListener("abort", follow);
  });
  return {
    signal: controller.signal,
    abort: () => controller.abort(),
    unlink: () => {
      for (const remove of listeners) remove();
    },
  };
}

export interface Deadline {
  /** Left out: no limit. */
  timeoutMs?: number;
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
  { timeoutMs, timedOut, signal, during = "on request" }: Deadline,
): Promise<T> {
  throwIfAborted(signal, during);
  const own = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  let onAbort: (() => void) | undefined;
  const interruption = new Promise<never>((_, reject) => {
    const end = (error: Error) => {
      reject(error);
      own.abort();
    };
    if (timeoutMs !== undefined)
      timer = setTimeout(() => end(timedOut?.() ?? new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    onAbort = () => end(new StatesetError("ABORTED", `Stopped ${during}.`, { cause: signal?.reason }));
    signal?.addEventListener("abort", onAbort, { once: true });
  });
  const answer = (async () => work(own.signal))();
  // Whichever loses the race may still reject later; that must not become an unhandled rejection.
  answer.catch(() => {});
  interruption.catch(() => {});
  try {
    return await Promise.race([answer, interruption]);
  } finally {
    clearTimeout(timer);
    if (onAbort) signal?.removeEventListener("abort", onAbort);
  }
}

/** Waits for foreign work however long it takes, but once the signal has fired only `graceMs` longer. */
export async function withGrace<T>(
  work: () => T | Promise<T>,
  signal: AbortSignal | undefined,
  graceMs: number,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  let begin: (() => void) | undefined;
  const late = new Promise<never>((_, reject) => {
    begin = () => {
      timer = setTimeout(
        () => reject(new Error(`still at work ${graceMs / 1000} s after it was told to stop`)),
        graceMs,
      );
    };
    if (signal?.aborted) begin();
    else signal?.addEventListener("abort", begin, { once: true });
  });
  const answer = (async () => work())();
  answer.catch(() => {});
  late.catch(() => {});
  try {
    return await Promise.race([answer, late]);
  } finally {
    clearTimeout(timer);
    if (begin) signal?.removeEventListener("abort", begin);
  }
}

import { withDeadline } from "../abort.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { messageOf, StatesetError } from "../error.ts";
import type { Environment, EnvironmentState, StepResult } from "./environment.ts";
import type { Scenario } from "./scenario.ts";

export interface EnvironmentFailure {
  kind: "threw" | "timeout";
  during: "fresh" | "reset" | "step";
  scenarioId: string | undefined;
  message: string;
}

/** The environment as an episode sees it: same calls, but each is timed and its failures are told apart. */
export interface GuardedEnvironment<S extends Scenario = Scenario> {
  reset(scenario?: S, options?: { seed?: number }): Promise<EnvironmentState<S>>;
  step(state: EnvironmentState<S>, action: Turn): Promise<StepResult<S>>;
}

export interface GuardOptions {
  /** The longest a single reset() or step() may take. */
  timeoutMs: number;
  /** How often an episode is begun anew after a failure. Default 1. */
  retries?: number;
  signal?: AbortSignal | undefined;
  onFailure?: (failure: EnvironmentFailure) => void;
}

export interface GuardedResult<T> {
  /** Absent when every attempt failed. */
  value: T | undefined;
  /** One entry per failed attempt; the caller counts and reports them. */
  failures: EnvironmentFailure[];
}

/**
 * Runs an episode against an environment that may throw or hang. A failed episode is begun anew with a fresh environment,
 * once by default; if that fails too the result has no value. Errors that are not the environment's pass through.
 */
export async function runGuarded<S extends Scenario, T>(
  environment: Environment<S>,
  episode: (environment: GuardedEnvironment<S>, attempt: number) => Promise<T>,
  options: GuardOptions,
): Promise<GuardedResult<T>> {
  const failures: EnvironmentFailure[] = [];
  const attempts = 1 + (options.retries ?? 1);
  for (let attempt = 0; attempt < attempts; attempt++) {
    try {
      const current =
        attempt === 0 ? environment : await timed("fresh", undefined, options, async () => environment.fresh());
      return { value: await episode(guarded(current, options), attempt), failures };
    } catch (error) {
      if (!(error instanceof EpisodeFailed)) throw error;
      failures.push(error.failure);
      options.onFailure?.(error.failure);
    }
  }
  return { value: undefined, failures };
}

/** How an environment's failure travels through the episode's code to runGuarded. */
class EpisodeFailed extends StatesetError {
  readonly failure: EnvironmentFailure;
  constructor(failure: EnvironmentFailure, cause: unknown) {
    const where = failure.scenarioId === undefined ? "" : ` in scenario "${failure.scenarioId}"`;
    const what = failure.kind === "timeout" ? "took too long" : "threw";
    super("ENVIRONMENT_FAILED", `The environment's ${failure.during}() ${what}${where}: ${failure.message}`, { cause });
    this.failure = failure;
  }
}

function guarded<S extends Scenario>(environment: Environment<S>, options: GuardOptions): GuardedEnvironment<S> {
  return {
    reset: (scenario, reset = {}) =>
      timed("reset", scenario?.id, options, (signal) => environment.reset(scenario, { ...reset, signal })),
    step: (state, action) =>
      timed("step", state.scenario.id, options, (signal) => environment.step(state, action, { signal })),
  };
}

async function timed<T>(
  during: EnvironmentFailure["during"],
  scenarioId: string | undefined,
  { timeoutMs, signal }: GuardOptions,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const failed = (kind: EnvironmentFailure["kind"], message: string, cause?: unknown) =>
    new EpisodeFailed({ kind, during, scenarioId, message }, cause);
  const answer = async (own: AbortSignal) => {
    try {
      return await work(own);
    } catch (error) {
      throw failed("threw", messageOf(error), error);
    }
  };
  return withDeadline(answer, {
    timeoutMs,
    timedOut: () => failed("timeout", `no answer within ${timeoutMs} ms`),
    signal,
    during: `during the environment's ${during}()`,
  });
}

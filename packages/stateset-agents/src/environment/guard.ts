import { z } from "zod";
import { withDeadline } from "../abort.ts";
import { type Failure, mistakeIn } from "../conversation/failure.ts";
import { type ToolDefinition, toolsSchema } from "../conversation/tool-definition.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { hasCode, messageOf, StatesetError } from "../error.ts";
import type { Environment, EnvironmentState, StepResult } from "./environment.ts";
import type { Scenario } from "./scenario.ts";

/** The environment as an episode sees it: same calls, but each is timed and its failures are told apart. */
export interface GuardedEnvironment<S extends Scenario = Scenario> {
  reset(scenario?: S, options?: { seed?: number }): Promise<EnvironmentState<S>>;
  step(state: EnvironmentState<S>, action: Turn): Promise<StepResult<S>>;
  tools(state: EnvironmentState<S>): readonly ToolDefinition[] | undefined;
}

export interface GuardOptions {
  /** The longest a single reset() or step() may take. */
  timeoutMs: number;
  signal?: AbortSignal | undefined;
  /** What failures are reported of. */
  scenarioId: string;
  trajectoryId: string;
  /** Whether an episode that failed so is begun anew. Left out: always. */
  retry?: (failure: Failure) => boolean;
}

export interface GuardedResult<T> {
  /** Absent when the last attempt failed. */
  value: T | undefined;
  /** One entry per failed attempt; the caller counts and reports them. */
  failures: Failure[];
}

/**
 * Runs an episode against an environment that may throw or hang. A failed episode is begun anew once, with a fresh environment;
 * if that fails too the result has no value. Errors that are not the environment's pass through.
 */
export async function runGuarded<S extends Scenario, T>(
  environment: Environment<S>,
  episode: (environment: GuardedEnvironment<S>, attempt: number) => Promise<T>,
  options: GuardOptions,
): Promise<GuardedResult<T>> {
  const attempts = async (attempt: number) => {
    const current = attempt === 0 ? environment : await timed("fresh", options, async () => environment.fresh());
    return episode(guarded(current, options), attempt);
  };
  return runTwice(attempts, options.retry);
}

/** Runs what may fail in timed(); where that failed, once more. Other errors pass through. */
export async function runTwice<T>(
  run: (attempt: number) => Promise<T>,
  retry?: (failure: Failure) => boolean,
): Promise<GuardedResult<T>> {
  const failures: Failure[] = [];
  for (const attempt of [0, 1]) {
    try {
      return { value: await run(attempt), failures };
    } catch (error) {
      if (!(error instanceof EpisodeFailed)) throw error;
      failures.push(error.failure);
      if (retry?.(error.failure) === false) break;
    }
  }
  return { value: undefined, failures };
}

/** How an environment's failure travels through the episode's code to runGuarded. */
class EpisodeFailed extends StatesetError {
  readonly failure: Failure;
  constructor(failure: Failure, cause: unknown) {
    const { during, scenarioId, message } = failure;
    const what = failure.kind === "timeout" ? "took too long" : "threw";
    const whose = during === "user" || during === "check" ? during : `${during}()`;
    const who = during === "harness" ? "The harness" : `The environment's ${whose}`;
    super("ENVIRONMENT_FAILED", `${who} ${what} in scenario "${scenarioId}": ${message}`, {
      cause,
    });
    this.failure = failure;
  }
}

function guarded<S extends Scenario>(environment: Environment<S>, options: GuardOptions): GuardedEnvironment<S> {
  return {
    reset: (scenario, reset = {}) =>
      timed("reset", options, async (signal) => checkState(await environment.reset(scenario, { ...reset, signal }))),
    tools: (state) => toolsOf(environment, state, options),
    step: (state, action) =>
      timed("step", options, async (signal) => checkStep(await environment.step(state, action, { signal }))),
  };
}

function toolsOf<S extends Scenario>(
  environment: Environment<S>,
  state: EnvironmentState<S>,
  { scenarioId, trajectoryId }: GuardOptions,
): readonly ToolDefinition[] | undefined {
  try {
    const tools = environment.tools?.(state);
    const read = tools && toolsSchema.parse(tools);
    const names = read?.map((tool) => tool.function.name) ?? [];
    const twice = names.find((name, i) => names.indexOf(name) < i);
    if (twice !== undefined) throw new Error(`two are called "${twice}"`);
    return read;
  } catch (error) {
    const message =
      error instanceof z.ZodError
        ? `tools() gave what are none: ${z.prettifyError(error)}`
        : `tools(): ${messageOf(error)}`;
    throw new EpisodeFailed({ kind: "threw", during: "reset", scenarioId, trajectoryId, message }, error);
  }
}

function checkStep<S extends Scenario>(result: StepResult<S>): StepResult<S> {
  if (typeof result !== "object" || result === null) throw new TypeError("it returned no { state, done }");
  if (typeof result.done !== "boolean") throw new TypeError("it returned a `done` that is neither true nor false");
  checkState(result.state);
  return result;
}

/** An environment is somebody's code; what it answers is looked at before a conversation is built on it. */
function checkState<S extends Scenario>(state: EnvironmentState<S>): EnvironmentState<S> {
  const fail = (what: string) => {
    throw new TypeError(`it returned ${what}`);
  };
  if (typeof state !== "object" || state === null) fail("no state");
  if (!Array.isArray(state.turns) || state.turns.length === 0) fail("a state without turns");
  const bad = state.turns.find((turn) => typeof turn?.content !== "string" || typeof turn.role !== "string");
  if (bad !== undefined) fail(`a turn that is no message: ${JSON.stringify(bad)?.slice(0, 100)}`);
  if (state.ended !== undefined && state.ended !== "done" && state.ended !== "max-turns") {
    fail(`ended: ${JSON.stringify(state.ended)}, which is neither "done" nor "max-turns"`);
  }
  return state;
}

/** Runs a call of somebody's code that may throw or hang; runTwice() sees which. */
export async function timed<T>(
  during: Failure["during"],
  { timeoutMs, signal, scenarioId, trajectoryId }: GuardOptions,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const failed = (kind: Failure["kind"], message: string, cause?: unknown) => {
    const mistake = mistakeIn(cause);
    // A user who says nothing, or a check that gives no verdict, says nothing of the reply either.
    const whose = hasCode(cause, "USER_FAILED") ? "user" : hasCode(cause, "CHECK_FAILED") ? "check" : during;
    const failure = {
      kind,
      during: whose as Failure["during"],
      scenarioId,
      trajectoryId,
      message,
      ...(mistake !== undefined && { mistake }),
    };
    return new EpisodeFailed(failure, cause);
  };
  const answer = async (own: AbortSignal) => {
    try {
      return await work(own);
    } catch (error) {
      throw failed("threw", messageOf(error), error);
    }
  };
  return withDeadline(answer, {
    timeoutMs,
    timedOut: () =>
      failed(
        "timeout",
        during === "harness"
          ? `it had not ended after ${timeoutMs} ms (timeoutMs of defineHarness())`
          : `no answer within ${timeoutMs} ms`,
      ),
    signal,
    during: during === "harness" ? "while the harness ran" : `during the environment's ${during}()`,
  });
}

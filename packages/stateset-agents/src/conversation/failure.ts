/** Something of the user's own that failed while a conversation was played or rewarded. */
export interface Failure {
  /** It threw, gave no answer in time, or gave a number that is NaN or infinite. */
  kind: "threw" | "timeout" | "not-finite";
  /** A call of the environment, its simulated user, what its check returned, a harness, a hook of the agent, or the reward. */
  during: "fresh" | "reset" | "step" | "user" | "check" | "harness" | "hook" | "reward";
  scenarioId: string;
  trajectoryId: string;
  message: string;
  /** Of a mistake in code: what was thrown, with the lines of the user's files it came through. In no file, since paths differ. */
  mistake?: string;
}

/**
 * What a TypeError and the like say of the code that threw them; undefined for other failures, which may pass when tried again. The
 * innermost cause decides: fetch() throws a TypeError when there is no connection, and names the reason as its cause.
 */
export function mistakeIn(thrown: unknown): string | undefined {
  let error = thrown;
  while (error instanceof Error && error.cause instanceof Error) error = error.cause;
  if (!isMistake(error)) return undefined;
  const [first = "", ...frames] = (error.stack ?? String(error)).split("\n");
  const own = frames.filter(
    (line) => !/node:internal|[\\/]node_modules[\\/]|[\\/]stateset-agents[\\/](?:dist|src)[\\/]/.test(line),
  );
  return [first, ...own.slice(0, 4)].join("\n");
}

function isMistake(error: unknown): error is Error {
  const kinds = [TypeError, ReferenceError, SyntaxError, RangeError];
  return error instanceof Error && kinds.some((kind) => error instanceof kind);
}

/**
 * True of an environment or a harness that threw at a reply: an answer to what the policy said, as far as anybody can tell. A call that hangs says
 * more about the machine, and what fails before a reply or in a reward or hook says nothing of the policy.
 */
export function isAnswer({ kind, during }: Failure): boolean {
  return kind === "threw" && (during === "step" || during === "harness");
}

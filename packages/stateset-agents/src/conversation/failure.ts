/** Something of the user's own that failed while a conversation was played or rewarded. */
export interface Failure {
  /** It threw, gave no answer in time, or gave a number that is NaN or infinite. */
  kind: "threw" | "timeout" | "not-finite";
  /** A call of the environment, a hook of the agent, or the reward. */
  during: "fresh" | "reset" | "step" | "hook" | "reward";
  scenarioId: string;
  trajectoryId: string;
  message: string;
}

/**
 * True of an environment that threw at a reply: an answer to what the policy said, as far as anybody can tell. A call that hangs says
 * more about the machine, and what fails before a reply or in a reward or hook says nothing of the policy.
 */
export function isAnswer({ kind, during }: Failure): boolean {
  return kind === "threw" && during === "step";
}

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

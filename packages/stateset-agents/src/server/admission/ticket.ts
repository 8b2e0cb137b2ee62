/** What a request says when it asks to be let in. */

/** First come first. A person waits for an interactive reply, a learner for its rollouts, nobody for a batch. */
export const priorities = ["interactive", "rollout", "batch"] as const;
export type Priority = (typeof priorities)[number];

export interface Ticket {
  /** Whose request it is: keys take turns. */
  key: string;
  priority: Priority;
  /** What it may cost: its prompt, and as many tokens as all its replies may take. */
  tokens: number;
  /** Replies, each of which takes a slot of the engine. */
  slots: number;
  /** After it the answer is no longer wanted. By the clock of the admission, in ms. */
  deadline?: number | undefined;
  signal?: AbortSignal | undefined;
}

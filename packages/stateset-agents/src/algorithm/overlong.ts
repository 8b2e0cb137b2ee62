/**
 * Soft overlong punishment, to be added to a reward: 0 when |y| ≤ L−C, (L−C−|y|)/C up to L, −1 beyond. C = bufferFraction·L; |y| is the
 * longest reply of the conversation, L the run's limit for one reply. The paper's C 4096 of L 20480 is a fraction of 0.2.
 * Source: Yu et al., "DAPO: An Open-Source LLM Reinforcement Learning System at Scale", 2025.
 */
import type { Sequence } from "./algorithm.ts";

export function overlongPenalty(sequence: Sequence, replyTokens: number, bufferFraction: number): number {
  const buffer = bufferFraction * replyTokens;
  const length = longestReply(sequence);
  if (length <= replyTokens - buffer) return 0;
  return length <= replyTokens ? (replyTokens - buffer - length) / buffer : -1;
}

/** In tokens. */
export function longestReply({ turn }: Pick<Sequence, "turn">): number {
  const lengths = new Map<number, number>();
  for (const number of turn) lengths.set(number, (lengths.get(number) ?? 0) + 1);
  return Math.max(0, ...lengths.values());
}

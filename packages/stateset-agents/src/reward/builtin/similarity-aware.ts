import type { RewardResult } from "../../conversation/trajectory.ts";
import { type RewardContext, RewardFunction, type RewardInput, type RewardOptions } from "../reward-function.ts";
import { parseRewardOptions } from "../reward-options.ts";
import { repliesOf } from "../text/replies.ts";
import { jaccard, ngrams, wordsOf } from "../text/words.ts";

/**
 * Penalises repetition: within a reply, of the agent's own earlier replies, and, during training, of the other conversations of the
 * group. Guards against a policy that finds one rewarded sentence and says nothing else. Score 1: nothing repeated. In evaluations a
 * conversation is scored by itself: how its neighbours came out says nothing of it, and depends on how many were sampled.
 */
export class SimilarityAwareReward extends RewardFunction {
  constructor(options: RewardOptions = {}) {
    super(parseRewardOptions(options, "SimilarityAwareReward", "similarity", {}));
  }

  override async compute(conversation: RewardInput, context: RewardContext = {}): Promise<RewardResult> {
    const replies = textsOf(conversation);
    if (replies.length === 0) return { score: 0, breakdown: { [this.name]: 0 } };
    const inside = mean(replies.map((reply) => (reply.trim() === "" ? 0 : distinctShare(reply))));
    const before =
      1 - mean(replies.map((reply, i) => Math.max(0, ...replies.slice(0, i).map((other) => similarity(reply, other)))));
    const group = context.evaluation ? [] : (context.group ?? []);
    const others = group.filter((other) => other.turns !== conversation.turns);
    const among =
      others.length === 0
        ? 1
        : 1 - mean(others.map((other) => similarity(replies.join(" "), textsOf(other).join(" "))));
    const score = inside * (others.length === 0 ? before : (before + among) / 2);
    return { score, breakdown: { [this.name]: score, inside, before, ...(others.length > 0 && { among }) } };
  }
}

function textsOf({ turns }: RewardInput): string[] {
  return repliesOf(turns).map(({ text }) => text);
}

/** Word pairs the texts share; single words when one is too short to have pairs. */
function similarity(a: string, b: string): number {
  const [left, right] = [wordsOf(a), wordsOf(b)];
  const n = Math.min(left.length, right.length) < 2 ? 1 : 2;
  return jaccard(ngrams(left, n), ngrams(right, n));
}

function distinctShare(text: string): number {
  const pairs = ngrams(wordsOf(text), 2);
  return pairs.length === 0 ? 1 : new Set(pairs).size / pairs.length;
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

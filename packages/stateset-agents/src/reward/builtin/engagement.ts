import type { RewardResult } from "../../conversation/trajectory.ts";
import { type RewardContext, RewardFunction, type RewardInput, type RewardOptions } from "../reward-function.ts";
import { parseRewardOptions } from "../reward-options.ts";
import { qualityOf } from "../text/quality.ts";
import { isClosing, meanOverReplies, type ReplyInContext } from "../text/replies.ts";
import { clamp, jaccard, ngrams, stemsOf, wordsOf } from "../text/words.ts";

/**
 * Heuristic: whether replies keep the conversation alive: they speak to the user, ask one good question or offer a next step,
 * take up the user's words and do not repeat earlier replies. A string of questions earns less than one.
 */
export class EngagementReward extends RewardFunction {
  constructor(options: RewardOptions = {}) {
    super(parseRewardOptions(options, "EngagementReward", "engagement", {}));
  }

  override compute(conversation: RewardInput, context: RewardContext = {}): Promise<RewardResult> {
    return meanOverReplies(this.name, conversation, context, engagementOf);
  }
}

function engagementOf(reply: ReplyInContext): number {
  const { text, user, userTexts, earlier } = reply;
  const words = wordsOf(text);
  const quality = qualityOf(reply).score;
  if (isClosing(user)) return quality;
  const questions = text.match(/\?/g)?.length ?? 0;
  const invites = /\b(?:let me know|tell me|would you like|do you want|should i|i can|we can|you can)\b/i.test(text);
  const asking = questions === 0 ? (invites ? 0.8 : 0) : questions <= 2 ? 1 : 0.4;
  const addressing = words.some((word) => /^you/.test(word)) ? 1 : 0;
  const theirs = new Set(stemsOf(userTexts.join(" ")));
  const listening = stemsOf(text).some((stem) => theirs.has(stem)) ? 1 : 0;
  const repeated = Math.max(0, ...earlier.map((other) => jaccard(ngrams(wordsOf(other), 2), ngrams(words, 2))));
  const substance = clamp(words.length / 4);
  // A question that takes up nothing the user said could be put to anybody.
  const relevant = listening === 1 ? 1 : 0.6;
  return quality * substance * (1 - repeated) * (relevant * (0.5 * asking + 0.25 * addressing) + 0.25 * listening);
}

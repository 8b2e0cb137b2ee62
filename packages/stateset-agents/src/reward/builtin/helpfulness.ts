import type { RewardResult } from "../../conversation/trajectory.ts";
import { type RewardContext, RewardFunction, type RewardInput, type RewardOptions } from "../reward-function.ts";
import { parseRewardOptions } from "../reward-options.ts";
import { qualityOf } from "../text/quality.ts";
import { isClosing, isGreeting, meanOverReplies, type ReplyInContext } from "../text/replies.ts";
import { clamp, stemsOf, wordsOf } from "../text/words.ts";

const asks =
  /\b(?:what|which|who|when|where|how|could you|can you|can i have|may i|do you|did you|would you|is (?:that|it|this)|are you|should i|please (?:send|tell|give|share|provide))\b[^.!]*\??|i need (?:the|your)\b/;
const acts =
  /\b(?:i (?:have|can|sent|opened|reported|found|see|checked|cancelled|changed|refunded|marked|started|am working)|i've|we (?:have|can|ship|are|offer)|you (?:can|should|get|find|save|need)|will|[a-z]+'ll|try|check|open|restart|update|install|delete|clear|enter|click|use|call|look|wait|it (?:costs|takes|is|was)|ships?|arrives?|there (?:is|are)|usually|in (?:about|\d+|your)|takes? (?:about|up to|\d)|\d+ (?:minutes?|hours?|days?|weeks?|months?)|yes|no|done|sent|(?:is|are|was|has|have been) (?:\w+ )?(?:updated|fixed|expired|cancelled|started|on its way|closed)|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b|[$€£]\s?\d|\d+\s?%/;
const refuses =
  /\b(?:i (?:can't|cannot|can not|am unable to|won't) help|i don't know|i do not know|no idea|not sure what)\b/;

/**
 * Heuristic: whether replies move the user's matter forward. A reply earns by taking up what the user spoke of, and by doing
 * something about it: asking for what is needed, saying what happens, giving a step, a price, a date. It cannot tell true from false.
 */
export class HelpfulnessReward extends RewardFunction {
  constructor(options: RewardOptions = {}) {
    super(parseRewardOptions(options, "HelpfulnessReward", "helpfulness", {}));
  }

  override compute(conversation: RewardInput, context: RewardContext = {}): Promise<RewardResult> {
    return meanOverReplies(this.name, conversation, context, helpfulnessOf);
  }
}

function helpfulnessOf(reply: ReplyInContext): number {
  const { text, user, userTexts } = reply;
  const quality = qualityOf(reply).score;
  const plain = text.toLowerCase().replaceAll("’", "'");
  if (isClosing(user)) return quality * (wordsOf(text).length <= 25 ? 1 : 0.6);
  if (isGreeting(user)) return quality * (asks.test(plain) ? 1 : 0.4);
  const shared = sharedStems(text, userTexts.join(" "));
  // A short reply has room for one word of the user's matter, a longer one for two.
  const onTopic = clamp(shared / (wordsOf(text).length <= 12 ? 1 : 2));
  // To do something that has nothing to do with what the user spoke of is half of nothing.
  const relevant = shared > 0 ? 1 : 0.5;
  const acting = asks.test(plain) || acts.test(plain) ? 1 : 0;
  const substance = clamp(wordsOf(text).length / 4) * (stemsOf(text).length > 0 ? 1 : 0.3);
  const refusal = refuses.test(plain) && !acts.test(plain.replace(refuses, "")) ? 0.3 : 1;
  return quality * refusal * substance * (0.4 * onTopic + 0.6 * acting * relevant);
}

/** Words of customer service that belong together: who speaks of a refund and hears of money was understood. */
const related: readonly (readonly string[])[] = [
  "order package parcel delivery deliver ship shipping arrive late warehouse driver track",
  "refund money return card charge bill payment pay price cost discount cheaper expensive dollar plan trial month offer",
  "crash freeze error app game website software device phone version update restart install screen",
  "cancel subscription membership account plan stop pause",
  "password login log email account locked blocked link reset",
  "name number address email",
  "size stock color exchange label item product damaged broken",
  "person manager angry upset service terrible urgent call",
].map((line) => stemsOf(line));

function sharedStems(reply: string, user: string): number {
  const theirs = new Set(stemsOf(user));
  const fields = related.filter((field) => field.some((stem) => theirs.has(stem)));
  return new Set(stemsOf(reply).filter((stem) => theirs.has(stem) || fields.some((field) => field.includes(stem))))
    .size;
}

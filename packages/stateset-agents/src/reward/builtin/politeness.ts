import type { RewardResult } from "../../conversation/trajectory.ts";
import { type RewardContext, RewardFunction, type RewardInput, type RewardOptions } from "../reward-function.ts";
import { parseRewardOptions } from "../reward-options.ts";
import { qualityOf } from "../text/quality.ts";
import { isClosing, meanOverReplies, type ReplyInContext } from "../text/replies.ts";
import { clamp, wordsOf } from "../text/words.ts";

/** Courtesies; each pattern is one kind, counted once per reply. */
const courtesies: readonly RegExp[] = [
  /\bplease\b/g,
  /\b(?:thanks(?: again| a lot)?|thank you(?: (?:very|so) much)?)(?: for (?:your patience|letting (?:me|us) know|contacting us|reaching out|waiting|writing to us))?\b/g,
  /\b(?:i am|i'm|we are|we're) (?:very |so |really )?sorry(?: (?:about|for|to hear) (?:that|the \w+))?\b|\bsorry (?:about|for|to hear) (?:that|the \w+)\b|\b(?:i |we |my |our )?apolog(?:ize|ise|ies|y)(?: for the \w+)?\b/g,
  /\b(?:(?:i am|i'm|we are|we're) )?(?:always )?(?:happy|glad|pleased) (?:to (?:help|assist|hear)|i could help|we could help)\b|\bmy pleasure\b/g,
  /\byou(?:'re| are) (?:very |most )?welcome\b/g,
  /\bhave a (?:great|good|nice|lovely|wonderful) (?:day|one|evening|weekend)\b/g,
  /\b(?:i|we) appreciate (?:it|that|your \w+)\b/g,
  /\b(?:may i|could you|would you (?:like|mind)|is there anything else i can (?:help|do))\b/g,
];

const rude =
  /\b(?:shut up|stupid|idiot|moron|dumb|damn|hell no|whatever|not my problem|your (?:own )?fault|don't care|do not care|get lost|go away|calm down|stop (?:whining|complaining|bothering)|useless)\b/;

/**
 * Heuristic: whether replies are courteous. Per reply 1 with a courtesy, 0.2 without, 0 when rude. Courtesies are counted by kind,
 * so saying "please" ten times is no better than once; a reply made of courtesies alone earns little unless the user is taking leave.
 */
export class PolitenessReward extends RewardFunction {
  constructor(options: RewardOptions = {}) {
    super(parseRewardOptions(options, "PolitenessReward", "politeness", {}));
  }

  override compute(conversation: RewardInput, context: RewardContext = {}): Promise<RewardResult> {
    return meanOverReplies(this.name, conversation, context, politenessOf);
  }
}

/** Whether a text contains a courtesy and nothing rude. For reports: "politeness 21% → 94%". */
export function isPolite(text: string): boolean {
  const plain = plainText(text);
  return !rude.test(plain) && courtesies.some((pattern) => plain.search(pattern) >= 0);
}

function politenessOf(reply: ReplyInContext): number {
  const { text, user } = reply;
  const plain = plainText(text);
  if (rude.test(plain)) return 0;
  const quality = qualityOf(reply).score;
  const kinds = courtesies.filter((pattern) => plain.search(pattern) >= 0).length;
  if (kinds === 0) return 0.2 * quality;
  const rest = wordsOf(courtesies.reduce((left, pattern) => left.replace(pattern, " "), plain)).length;
  const repeats = courtesies.reduce((sum, pattern) => sum + Math.max(0, (plain.match(pattern)?.length ?? 0) - 1), 0);
  const substance = isClosing(user) ? 1 : clamp(rest / 3, 0.1);
  const restraint = 0.5 ** (Math.max(0, kinds - 3) + Math.max(0, repeats - 1));
  return quality * substance * restraint;
}

function plainText(text: string): string {
  return text.toLowerCase().replaceAll("’", "'");
}

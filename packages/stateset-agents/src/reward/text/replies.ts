import { isReply, type RewardResult, type Turn } from "../../conversation/trajectory.ts";
import type { RewardContext, RewardInput } from "../reward-function.ts";
import { fluencyOf } from "./fluency.ts";
import { wordsOf } from "./words.ts";

/** One reply with what stood before it. */
export interface ReplyInContext {
  /** Index in the conversation's turns. */
  index: number;
  text: string;
  /** The newest user message before it, "" when there is none. */
  user: string;
  /** All user messages before it. */
  userTexts: string[];
  /** The agent's earlier replies. */
  earlier: string[];
}

export function repliesOf(turns: readonly Turn[]): ReplyInContext[] {
  const userTexts: string[] = [];
  const earlier: string[] = [];
  const replies: ReplyInContext[] = [];
  for (const [index, turn] of turns.entries()) {
    const { role, content, tool_calls: calls } = turn;
    if (role === "user") userTexts.push(content);
    // A message that only calls a tool says nothing to the user yet.
    if (role !== "assistant" || (content === "" && calls?.length)) continue;
    if (!isReply(turn)) {
      earlier.push(content);
      continue;
    }
    replies.push({
      index,
      text: content,
      user: userTexts.at(-1) ?? "",
      userTexts: [...userTexts],
      earlier: [...earlier],
    });
    earlier.push(content);
  }
  return replies;
}

/**
 * The mean over replies, each times how fluent it is; a conversation without any scores 0. Scores of single replies are in
 * `metadata.replies`, those that lost by their fluency in `metadata.unfluent`.
 */
export async function meanOverReplies(
  name: string,
  { turns }: RewardInput,
  context: RewardContext,
  scoreOf: (reply: ReplyInContext) => number,
): Promise<RewardResult> {
  const read = repliesOf(turns).map((reply) => [reply.index, scoreOf(reply)] as const);
  // Where the words earn nothing, the model need not be asked.
  const fluency = read.some(([, value]) => value > 0)
    ? await fluencyOf(turns, context, name)
    : new Map<number, number>();
  const scores = read.map(([index, value]) => [index, value * (fluency.get(index) ?? 1)] as const);
  const score = scores.length === 0 ? 0 : scores.reduce((sum, [, value]) => sum + value, 0) / scores.length;
  const unfluent = read.map(([index]) => index).filter((index) => (fluency.get(index) ?? 1) < 1);
  const metadata = { replies: Object.fromEntries(scores), ...(unfluent.length > 0 && { unfluent }) };
  return { score, breakdown: { [name]: score }, metadata };
}

const closings = new Set(
  `all alright appreciate bye byebye cool day do fine for good goodbye got great have help i i'm is it it's just later lot lovely many much
  need nice no nope not nothing now ok okay perfect right see set so sounds sure thank thanks that that'll that's the then this
  understood very well will works worked opens you you're your`.split(/\s+/),
);
const closingCue =
  /\b(thanks?|thank you|bye|goodbye|alright|ok(ay)?|that'?s all|sounds good|got it|great|perfect|(?:it|that) work(?:s|ed)|it opens)\b/i;

/** Whether the user is taking leave or only saying thanks: then courtesy alone is a full answer. */
export function isClosing(user: string): boolean {
  const words = wordsOf(user);
  return (
    words.length > 0 &&
    closingCue.test(user.replaceAll("’", "'")) &&
    words.filter((word) => !closings.has(word)).length <= 1 &&
    !user.includes("?")
  );
}

/** Whether the user has only said hello, or only asked for help: there is nothing to solve yet. */
export function isGreeting(user: string): boolean {
  return /^(?:(?:hi|hello|hey|good (?:morning|afternoon|evening)|there|i need (?:some )?help|can you help me|please)\W*)+$/i.test(
    user.trim(),
  );
}

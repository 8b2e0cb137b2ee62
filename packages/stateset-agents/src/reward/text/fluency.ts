/**
 * A floor under fluency. A heuristic counts words and shapes, so a policy can please it with text that nobody would say; a language
 * model that was frozen before training began tells such text by its log-probs.
 *
 * How likely is likely enough differs from model to model, so each reference is asked itself: it scores a few plain replies, and the same
 * replies with their words shuffled. On the scale of these two (0: as the plain ones, 1: as the shuffled ones) a reply is fluent up to
 * `fluentUpTo`, worth nothing from `nothingFrom`, and in between in proportion. Both the mean over its tokens and its worst window are
 * looked at, so that one good sentence does not carry a heap of keywords. What a model samples itself lies far above the plain replies.
 */
import type { Message } from "../../conversation/message.ts";
import type { Turn } from "../../conversation/trajectory.ts";
import { hasCode, messageOf } from "../../error.ts";
import { createRandom } from "../../random.ts";
import type { RewardContext, ScoreTurns, TurnScore } from "../reward-function.ts";

const fluentUpTo = 0;
const nothingFrom = 0.4;
/** Tokens of the worst window: about six words. */
const windowTokens = 8;
/** Nats a token between plain and shuffled below which a reference knows too little of language to be a judge of it. */
const smallestGap = 1;

const plain: readonly (readonly [user: string, reply: string])[] = [
  ["My order has not arrived.", "I am sorry about that. Could you give me the order number, please?"],
  ["The app crashes when I open it.", "Please update the app and restart your phone. Does it still crash?"],
  ["How much is the yearly plan?", "It is 90 dollars a year, and you can cancel at any time."],
  ["I forgot my password.", "No problem. I have sent a link to your email so that you can reset it."],
  ["Can I return these shoes?", "Yes, you can return them within 30 days if you have not worn them."],
  ["Where is the nearest station?", "It is two streets from here, next to the library on the left."],
  ["What should I cook tonight?", "Do you like fish? Then try some rice with salmon and a green salad."],
  ["My flight was cancelled.", "That is bad news. I can book you on the next flight tomorrow at nine."],
  ["Thank you for your help.", "You are welcome. Have a nice day!"],
  ["I want to learn the guitar.", "Start with three easy chords and practice for ten minutes every day."],
];

const conversation = (user: string, reply: string): Message[] => [
  { role: "user", content: user },
  { role: "assistant", content: reply },
];
const honest = plain.map(([user, reply]) => conversation(user, reply));
const shuffled = plain.map(([user, reply], i) =>
  conversation(user, createRandom(i).shuffled(reply.toLowerCase().split(" ")).join(" ")),
);

interface Level {
  mean: number;
  worst: number;
}

interface Scale {
  from: Level;
  gap: Level;
}

/** By turn: 1 for language, 0 for word salad. Turns without a score are taken for language. */
export async function fluencyOf(
  turns: readonly Turn[],
  context: RewardContext,
  who: string,
): Promise<Map<number, number>> {
  const { score } = context;
  if (!score) {
    warnOnce(context, unguarded(who));
    return new Map();
  }
  let scale: Scale | undefined;
  try {
    scale = await scaleOf(score);
  } catch (error) {
    // A run that has no room for a second copy of its model must not end for want of a guard.
    if (!hasCode(error, "OUT_OF_MEMORY")) throw error;
    warnOnce(context, `Heuristic rewards go unguarded, for want of memory: ${messageOf(error)}`);
    return new Map();
  }
  if (!scale) {
    warnOnce(context, ignorant);
    return new Map();
  }
  const { from, gap } = scale;
  return new Map(
    (await score(turns)).map((one) => {
      const level = levelOf(one);
      const fall = Math.max((from.mean - level.mean) / gap.mean, (from.worst - level.worst) / gap.worst);
      return [one.turn, Math.min(1, Math.max(0, (nothingFrom - fall) / (nothingFrom - fluentUpTo)))];
    }),
  );
}

/** By what a reference made of the first plain reply: a scorer that has seen it gives the same array again. */
const scales = new WeakMap<readonly TurnScore[], Scale | undefined>();

/** What this reference makes of plain replies, and how much less of shuffled ones. Undefined where it cannot tell them apart. */
async function scaleOf(score: ScoreTurns): Promise<Scale | undefined> {
  const first = await score(honest[0]!);
  if (!scales.has(first)) scales.set(first, await measuredScale(score));
  return scales.get(first);
}

async function measuredScale(score: ScoreTurns): Promise<Scale | undefined> {
  const all = await Promise.all([...honest, ...shuffled].map(score));
  const levels = all.map((scores) => levelOf(scores[0]!));
  const from = meanLevel(levels.slice(0, plain.length));
  const to = meanLevel(levels.slice(plain.length));
  const gap = { mean: from.mean - to.mean, worst: from.worst - to.worst };
  return gap.mean < smallestGap || gap.worst < smallestGap ? undefined : { from, gap };
}

function levelOf({ logprobs }: TurnScore): Level {
  let sum = 0;
  let windowSum = 0;
  let worst = Number.POSITIVE_INFINITY;
  for (let i = 0; i < logprobs.length; i++) {
    sum += logprobs[i]!;
    windowSum += logprobs[i]! - (i >= windowTokens ? logprobs[i - windowTokens]! : 0);
    if (i >= windowTokens - 1) worst = Math.min(worst, windowSum / windowTokens);
  }
  const mean = logprobs.length === 0 ? 0 : sum / logprobs.length;
  return { mean, worst: Math.min(worst, mean) };
}

function meanLevel(levels: readonly Level[]): Level {
  const mean = (of: (level: Level) => number) => levels.reduce((sum, level) => sum + of(level), 0) / levels.length;
  return { mean: mean((level) => level.mean), worst: mean((level) => level.worst) };
}

const unguarded = (who: string) =>
  `Reward "${who}" is a heuristic, and no model is at hand to tell language from word salad: text that nobody would say can please it. Conversations of train() and evaluate() are guarded; elsewhere pass \`score\` in its context.`;
const ignorant =
  "The model the run begins with does not tell plain sentences from their words shuffled, so heuristic rewards go unguarded: text that nobody would say can please them.";

const said = new Set<string>();

function warnOnce({ warn }: RewardContext, message: string): void {
  if (warn) {
    warn(message);
    return;
  }
  // One heuristic stands for all: who reads it knows.
  const kind = message.startsWith("Reward ") ? "unguarded" : message;
  if (said.has(kind)) return;
  said.add(kind);
  process.emitWarning(message, "RewardWarning");
}

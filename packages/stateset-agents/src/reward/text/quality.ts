import type { ReplyInContext } from "./replies.ts";
import { clamp, functionWords, jaccard, longestSharedRun, ngrams, wordsOf } from "./words.ts";

export type Problem = "empty" | "repetition" | "said before" | "word salad" | "echo" | "symbols";

export interface Quality {
  /** 1 for an ordinary sentence, towards 0 for text that only looks like one to a keyword counter. */
  score: number;
  problems: Problem[];
}

/**
 * Whether a reply is language at all. Every heuristic reward multiplies by this, so that empty replies, repeated phrases, heaps of
 * keywords, copies of the user's words and one sentence said every turn earn little. For English: word salad is told by its lack of function words.
 */
export function qualityOf({ text: reply, user, earlier }: ReplyInContext): Quality {
  const words = wordsOf(reply);
  if (words.length === 0) return { score: 0, problems: ["empty"] };
  const factors: [Problem, number][] = [
    ["repetition", repetition(reply, words)],
    ["said before", saidBefore(words, earlier) * saidAgain(reply, earlier)],
    ["word salad", salad(reply, words)],
    ["echo", echo(words, wordsOf(user))],
    ["symbols", symbols(reply)],
  ];
  return {
    score: factors.reduce((product, [, factor]) => product * factor, 1),
    problems: factors.filter(([, factor]) => factor < 0.7).map(([problem]) => problem),
  };
}

/** Repeated bigrams, one word over and over, or a word right after itself. */
function repetition(reply: string, words: readonly string[]): number {
  if (words.length < 3) return words.length === 2 && words[0] === words[1] ? 0.5 : 1;
  const bigrams = ngrams(words, 2);
  const repeated = 1 - new Set(bigrams).size / bigrams.length;
  // Only spaces in between: "thank you. You can" is fine.
  const doubled = (reply.match(/\b([\p{L}']+)(?=\s+\1\b)/giu)?.length ?? 0) / words.length;
  const counts = new Map<string, number>();
  for (const word of words) if (!functionWords.has(word)) counts.set(word, (counts.get(word) ?? 0) + 1);
  const most = words.length >= 6 ? Math.max(0, ...counts.values()) / words.length : 0;
  return (
    clamp(1 - 2.5 * Math.max(0, repeated - 0.15)) * clamp(1 - 3 * doubled) * clamp(1 - 4 * Math.max(0, most - 0.25))
  );
}

/** Nearly the same as an earlier reply: from half of its word pairs on it loses, at four fifths most. Short ones ("Okay.") may come again. */
function saidBefore(words: readonly string[], earlier: readonly string[]): number {
  if (words.length < 3) return 1;
  const pairs = ngrams(words, 2);
  const alike = Math.max(0, ...earlier.map((reply) => jaccard(ngrams(wordsOf(reply), 2), pairs)));
  return 1 - 0.7 * clamp((alike - 0.5) / 0.3);
}

/** Whole sentences of five words or more that stood in an earlier reply, or stand twice in this one. */
function saidAgain(reply: string, earlier: readonly string[]): number {
  const sentences = (text: string) =>
    text
      .split(/[.!?\n]+/)
      .map(wordsOf)
      .filter(({ length }) => length >= 5)
      .map((words) => words.join(" "));
  const own = sentences(reply);
  const old = new Set(earlier.flatMap(sentences));
  const again = own.filter((sentence, i) => old.has(sentence) || own.indexOf(sentence) < i).length;
  return own.length === 0 ? 1 : 1 - (0.5 * again) / own.length;
}

const courtesyWords = "please sorry thank thanks";
/** Pairs of words that no sentence has: what cannot follow the words before the colon. */
const impossiblePairs: ReadonlyMap<string, ReadonlySet<string>> = new Map(
  [
    `a an the: a am an and are at be but by can do for from has have i if in is it my of on or our so the they to was we were will
    with you your ${courtesyWords}`,
    `at for from of with: and are can do i is of or they was we were will ${courtesyWords}`,
  ].flatMap((line) => {
    const [first, second] = line.split(":").map((part) => part.trim().split(/\s+/));
    return first!.map((word) => [word, new Set(second)] as const);
  }),
);
/** Words that end no sentence. */
const neverLast = new Set("a an and because but i if my of or our the we your".split(" "));

/** Sentences hold function words, in an order that makes sense, and long ones have punctuation. */
function salad(reply: string, words: readonly string[]): number {
  // The list of function words is English; other scripts cannot be judged by it.
  const latin = (reply.match(/[a-z]/gi) ?? []).length;
  const letters = (reply.match(/\p{L}/gu) ?? []).length;
  if (words.length < 6 || latin < letters / 2) return 1;
  const sentences = reply.split(/[.!?\n]+/).filter((part) => /\p{L}/u.test(part));
  const share = words.filter((word) => functionWords.has(word)).length / words.length;
  const wrongPairs = sentences
    .flatMap((sentence) => ngrams(wordsOf(sentence), 2))
    .filter((pair) =>
      impossiblePairs.get(pair.slice(0, pair.indexOf(" ")))?.has(pair.slice(pair.indexOf(" ") + 1)),
    ).length;
  const wrongEnd = neverLast.has(words.at(-1)!) ? 1 : 0;
  const length = words.length / Math.max(1, sentences.length);
  return (
    clamp(share / (words.length < 10 ? 0.15 : 0.2)) ** 2 *
    0.4 ** (wrongPairs + wrongEnd) *
    clamp(1 - (length - 45) / 45, 0.2)
  );
}

/** How much of a reply is one run of the user's own words. Repeating an order number is fine; repeating the message is not. */
function echo(words: readonly string[], user: readonly string[]): number {
  if (words.length < 3 || user.length < 3) return 1;
  // A courtesy put in front does not make a copy an answer: up to three words more do not count.
  const run = longestSharedRun(words, user);
  const share = run >= 4 || run === user.length ? run / Math.max(3, words.length - 3) : 0;
  const known = new Set(user);
  const overlap = words.length >= 5 ? words.filter((word) => known.has(word)).length / words.length : 0;
  return clamp(1 - 2 * Math.max(0, share - 0.5)) * clamp(1 - 4 * Math.max(0, overlap - 0.75));
}

function symbols(reply: string): number {
  const visible = reply.replace(/\s/g, "");
  const ordinary = visible.match(/[\p{L}\p{N}\p{M}.,!?'"’:;()$€£%@/-]/gu)?.length ?? 0;
  return clamp((ordinary / visible.length) * 2 - 0.8);
}

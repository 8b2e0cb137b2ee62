/** Where the tokens of each reply stand. */
import type { Tokens } from "./tokens.ts";

export type Range = readonly [from: number, to: number];

/** By the index of the message. Tokens that were sampled say whose they are; those of data are runs that are learnt from, the last of the last reply. */
export function replyRanges(tokens: Tokens, messages: readonly { role: string }[]): Map<number, Range> {
  const sampled = sampledRanges(tokens);
  if (sampled.size > 0) return sampled;
  const runs = learntRuns(tokens);
  const replies = messages.flatMap(({ role }, i) => (role === "assistant" ? [i] : []));
  const count = Math.min(runs.length, replies.length);
  return new Map(runs.slice(runs.length - count).map((run, i) => [replies[replies.length - count + i]!, run]));
}

function sampledRanges({ turn, count }: Tokens): Map<number, Range> {
  const ranges = new Map<number, Range>();
  for (let token = 0; token < count; token++) {
    const own = turn[token]!;
    if (own < 0) continue;
    const from = token;
    while (token + 1 < count && turn[token + 1] === own) token++;
    ranges.set(own, [from, token + 1]);
  }
  return ranges;
}

function learntRuns({ learn, count, chains }: Tokens): Range[] {
  const runs: Range[] = [];
  for (const { from, length } of chains) {
    for (let token = from; token < Math.min(count, from + length); token++) {
      if (learn[token] !== 1) continue;
      const first = token;
      while (token + 1 < from + length && learn[token + 1] === 1) token++;
      runs.push([first, token + 1]);
    }
  }
  return runs;
}

/** Where the reasoning of a reply ends and the rest begins; the range's start where it has none. */
export function reasoningEnd(
  [from, to]: Range,
  raw: (token: number) => string,
  { reasoning, content }: { reasoning?: string | undefined; content: string },
): number {
  if (!reasoning) return from;
  let text = "";
  const ends: number[] = [];
  for (let token = from; token < to; token++) {
    text += raw(token);
    ends.push(text.length);
  }
  const begins = text.indexOf(reasoning);
  if (begins < 0) return from;
  const after = begins + reasoning.length;
  const answer = content.trim() === "" ? -1 : text.indexOf(content.trim(), after);
  // Without an answer: the mark that closes it is still part of it.
  const closing = /^\s*<\/[^<>\s]{1,40}>/.exec(text.slice(after))?.[0].length ?? 0;
  const end = answer < 0 ? after + closing : answer;
  const first = ends.findIndex((own) => own > end);
  return first < 0 ? to : from + first;
}

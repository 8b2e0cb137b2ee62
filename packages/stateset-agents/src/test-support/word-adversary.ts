/**
 * An adversary that knows nothing of language: it swaps, inserts and deletes words of a small vocabulary and keeps what a reward likes
 * better. One that sees the log-probs keeps, of two that the reward likes alike, what the reference finds likelier, and so finds its way
 * to a floor; one that is blind sees the reward alone, as a policy does.
 */
import type { Turn } from "../conversation/trajectory.ts";
import type { Policy } from "../policy/policy.ts";
import { createRandom, type Random } from "../random.ts";
import type { ReferenceScorer } from "../reward/reference-scorer.ts";
import type { RewardFunction, ScoreTurns } from "../reward/reward-function.ts";

/** What the heuristics look for, grammar, and what has nothing to do with anything. */
const vocabulary =
  `please thank you sorry thanks happy to help order refund card account number days app phone price plan update restart check
  send can will would could which what when how i you your we is it the a of in for not no yes try open let me know tree window
  green seven river chair . ? , i'm i'll`.split(/\s+/);

export interface Attack {
  reward: RewardFunction;
  users: readonly string[];
  seed: number;
  /** Where it begins. Default: words at random. */
  start?: readonly string[] | undefined;
}

export interface Found {
  score: number;
  replies: string[];
}

const quiet = () => {};

/** Against the words alone, one try at a time. */
export async function attackWords({ reward, users, seed, start }: Attack, tries: number): Promise<Found> {
  const random = createRandom(seed);
  let best = start?.map(split) ?? users.map(() => drawn(random, 8));
  const scoreOf = async (replies: readonly string[][]) =>
    (await reward.compute({ turns: chat(users, replies) }, { warn: quiet })).score;
  let score = await scoreOf(best);
  for (let n = 0; n < tries; n++) {
    const next = mutated(best, random);
    const own = await scoreOf(next);
    if (own >= score) [best, score] = [next, own];
  }
  return { score, replies: best.map(said) };
}

/** Against the guarded reward, `width` tries at a time, which the reference scores together. */
export async function attackGuarded(
  { reward, users, seed, start }: Attack,
  {
    policy,
    scorer,
    rounds,
    blind = false,
    width = 8,
  }: { policy: Policy; scorer: ReferenceScorer; rounds: number; blind?: boolean; width?: number },
): Promise<Found> {
  const random = createRandom(seed);
  const measure = async (candidates: readonly string[][][]) => {
    const group = candidates.map((replies) => recorded(policy, chat(users, replies)));
    const score = scorer.forGroup(group);
    return Promise.all(
      group.map(async ({ turns }, i) => ({
        replies: candidates[i]!,
        score: (await reward.compute({ turns }, { score, warn: quiet })).score,
        likely: await likelihood(score, turns),
      })),
    );
  };
  let [best] = await measure([start?.map(split) ?? users.map(() => drawn(random, 8))]);
  for (let round = 0; round < rounds; round++) {
    const tried = await measure(Array.from({ length: width }, () => mutated(best!.replies, random)));
    for (const one of tried) {
      const alike = one.score === best!.score && (blind || one.likely > best!.likely);
      if (one.score > best!.score || alike) best = one;
    }
  }
  return { score: best!.score, replies: best!.replies.map(said) };
}

export function chat(users: readonly string[], replies: readonly (readonly string[] | string)[]): Turn[] {
  return users.flatMap((content, i): Turn[] => {
    const reply = replies[i]!;
    return [
      { role: "user", content },
      { role: "assistant", content: typeof reply === "string" ? reply : said(reply) },
    ];
  });
}

async function likelihood(score: ScoreTurns, turns: readonly Turn[]): Promise<number> {
  const all = (await score(turns)).flatMap(({ logprobs }) => [...logprobs]);
  return all.reduce((sum, value) => sum + value, 0) / all.length;
}

function recorded({ tokenizer }: Policy, turns: readonly Turn[]) {
  const segments = tokenizer.segments(turns);
  const tokens = Int32Array.from(segments.flatMap((segment) => [...segment.tokens]));
  const turn = Int32Array.from(
    segments.flatMap(({ generated, message, tokens: own }) => [...own].map(() => (generated ? message : -1))),
  );
  const none = { logprobs: new Float32Array(tokens.length), learn: new Uint8Array(tokens.length) };
  return { turns, chains: [{ tokens, turn, ...none }] };
}

function drawn(random: Random, count: number): string[] {
  return Array.from({ length: count }, () => vocabulary[random.below(vocabulary.length)]!);
}

function mutated(replies: readonly (readonly string[])[], random: Random): string[][] {
  const next = replies.map((words) => [...words]);
  const words = next[random.below(next.length)]!;
  const at = random.below(Math.max(1, words.length));
  const word = vocabulary[random.below(vocabulary.length)]!;
  const kind = random.below(4);
  if (kind === 0) words.splice(at, 0, word);
  else if (kind === 1) words.splice(at, 1, word);
  else if (kind === 2) words.splice(at, 1);
  else {
    const other = random.below(Math.max(1, words.length));
    [words[at], words[other]] = [words[other] ?? word, words[at] ?? word];
  }
  return next;
}

/** Written like sentences: a capital at their beginning, marks where they belong, a full stop at the end. */
function said(words: readonly string[]): string {
  const text = words.join(" ").replace(/ ([.,?])/g, "$1");
  const closed = /[.?]$/.test(text) || text === "" ? text : `${text}.`;
  return closed.replace(/(^|[.?] )([a-z])/g, (_, before: string, letter: string) => before + letter.toUpperCase());
}

function split(reply: string): string[] {
  return reply.toLowerCase().match(/[\w$']+|[.,?]/g) ?? [];
}

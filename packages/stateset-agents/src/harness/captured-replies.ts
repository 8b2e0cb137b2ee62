/**
 * What an attempt said, as a tree: a reply follows the one whose tokens its prompt goes on from, exactly. Each way from a root to a leaf is
 * a chain of the trajectory, and every sampled token stands in one of them alone; where a chain begins with tokens of another, they are
 * prompt to it.
 */
import type { ChainBuilder } from "../conversation/chain.ts";
import type { Message } from "../conversation/message.ts";
import type { TokenChain, Turn } from "../conversation/trajectory.ts";

export interface CapturedReply {
  /** The same for calls that ask for the same. */
  key: string;
  /** How many such calls came before, and which of the replies to one call it is. */
  asked: number;
  choice: number;
  /** The reply that the conversation went on from. */
  from: CapturedReply | undefined;
  /** As the client gave them. */
  messages: readonly Message[];
  turn: Turn;
  /** Up to this reply; it does not grow any more. */
  chain: ChainBuilder;
}

/** A reply that was broken off. */
export interface BrokenReply extends Pick<CapturedReply, "key" | "asked" | "choice"> {
  /** Its tokens are none to learn from. */
  chain: TokenChain;
}

export interface Conversations {
  /** The longest conversation, as rewards read it. */
  turns: Turn[];
  /** Its chain first, then those of others, then what counts for nothing: repeated and broken off. */
  chains: TokenChain[];
  /** Replies that were asked for again, and the other was gone on with. */
  repeated: number;
}

export function conversationsOf(replies: readonly CapturedReply[], broken: readonly BrokenReply[]): Conversations {
  const sorted = [...replies].sort(byPlace);
  const counted = countedOf(sorted);
  const followed = new Set([...counted].map(({ from }) => from));
  const leaves = sorted.filter((reply) => counted.has(reply) && !followed.has(reply)).sort(byLength);
  const taken = new Set<CapturedReply>();
  const [main] = leaves;
  const turns = main ? turnsOf(main) : [];
  let next = turns.length;
  const number = () => next++;
  const chains = leaves.map((leaf) => {
    const own = wayTo(leaf).filter((reply) => !taken.has(reply));
    for (const reply of own) taken.add(reply);
    return chainOf(leaf, own, leaf === main ? undefined : number);
  });
  const rest = sorted.filter((reply) => !counted.has(reply));
  chains.push(...rest.map((reply) => unlearnt(chainOf(reply, [reply], number))));
  chains.push(...[...broken].sort(byPlace).map(({ chain }) => placed(chain, 0, number)));
  return { turns, chains, repeated: rest.length };
}

/** Of calls that ask for the same, those that were gone on with; where none was, the last. */
function countedOf(replies: readonly CapturedReply[]): Set<CapturedReply> {
  const followed = new Set(replies.map(({ from }) => from));
  const alike = new Map<string, CapturedReply[]>();
  for (const reply of replies) alike.set(reply.key, [...(alike.get(reply.key) ?? []), reply]);
  return new Set(
    [...alike.values()].flatMap((same) => {
      const goneOn = same.filter((reply) => followed.has(reply));
      const last = same.filter(({ asked }) => asked === same.at(-1)!.asked);
      return goneOn.length > 0 ? goneOn : last.slice(0, 1);
    }),
  );
}

/** In an order that says nothing of who came first. */
function byPlace(a: Pick<CapturedReply, "key" | "asked" | "choice">, b: typeof a): number {
  return a.key === b.key ? a.asked - b.asked || a.choice - b.choice : a.key < b.key ? -1 : 1;
}

function byLength(a: CapturedReply, b: CapturedReply): number {
  return b.messages.length - a.messages.length || b.chain.length - a.chain.length || byPlace(a, b);
}

/** From the first reply of its chain to this one. */
export function wayTo(reply: CapturedReply): CapturedReply[] {
  return reply.from ? [...wayTo(reply.from), reply] : [reply];
}

/** What was said up to a reply and in it. What others said for the agent is no reply of it. */
function turnsOf(leaf: CapturedReply): Turn[] {
  const replies = new Map(wayTo(leaf).map(({ messages, turn }) => [messages.length, turn]));
  const given = leaf.messages.map((message, i): Turn => {
    const turn = replies.get(i);
    if (turn) return turn;
    return message.role === "assistant" ? { ...message, given: true } : { ...message };
  });
  return [...given, leaf.turn];
}

/** The chain that ends with a reply, in which only its `own` replies were sampled. */
function chainOf(leaf: CapturedReply, own: readonly CapturedReply[], number: (() => number) | undefined): TokenChain {
  return placed(leaf.chain.build(), own[0]?.from?.chain.length ?? 0, number);
}

/** With the first `shared` tokens as prompt. `number` numbers replies that are none of the trajectory's turns. */
function placed(chain: TokenChain, shared: number, number: (() => number) | undefined): TokenChain {
  const { logprobs, learn, turn, samplerLogprobs, versions = {} } = chain;
  for (const column of [logprobs, learn, samplerLogprobs]) column?.fill(0, 0, shared);
  turn.fill(-1, 0, shared);
  const numbers = new Map<number, number>();
  for (const [i, old] of turn.entries()) {
    if (old < 0) continue;
    if (!numbers.has(old)) numbers.set(old, number ? number() : old);
    turn[i] = numbers.get(old)!;
  }
  return { ...chain, versions: Object.fromEntries([...numbers].map(([old, now]) => [now, versions[old]!])) };
}

function unlearnt(chain: TokenChain): TokenChain {
  chain.learn.fill(0);
  return chain;
}

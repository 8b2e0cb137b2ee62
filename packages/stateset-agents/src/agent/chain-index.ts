import { createHash } from "node:crypto";
import type { ChainBuilder } from "../conversation/chain.ts";
import type { Message } from "../conversation/message.ts";

/** Replies that somebody else wrote may follow the one that was sampled: so many of them. */
const lookBack = 4;

/**
 * The chains of conversations that an agent answered lately, for callers who keep the messages themselves and give all of them each
 * time. Found again by who said what so far, a conversation goes on from the tokens that were sampled, which messages do not tell.
 * Whether it really goes on the tokenizer decides (`extend`), which compares everything; so a chain too many is found at no harm.
 */
export class ChainIndex {
  readonly #most: { chains: number; tokens: number };
  /** The order of a Map is that of insertion: the first is the one not asked for longest. */
  readonly #chains = new Map<string, ChainBuilder>();

  /** A token takes 13 bytes. */
  constructor(most = { chains: 256, tokens: 1 << 21 }) {
    this.#most = most;
  }

  get size(): number {
    return this.#chains.size;
  }

  /** The chain whose reply stands latest in these messages, among their last replies. */
  find(messages: readonly Message[]): ChainBuilder | undefined {
    const replies = [...messages.keys()].filter((i) => messages[i]!.role === "assistant").slice(-lookBack);
    const key = keysAt(messages, replies).findLast((key) => this.#chains.has(key));
    if (key === undefined) return undefined;
    const chain = this.#chains.get(key)!;
    this.#put(key, chain);
    return chain;
  }

  /** `reply` as the caller got it. The chain must not grow any more. */
  keep(messages: readonly Message[], reply: Message, chain: ChainBuilder): void {
    const [key] = keysAt([...messages, reply], [messages.length]);
    this.#put(key!, chain);
    let tokens = [...this.#chains.values()].reduce((sum, { length }) => sum + length, 0);
    for (const [oldest, { length }] of this.#chains) {
      if (this.#chains.size <= this.#most.chains && tokens <= this.#most.tokens) break;
      this.#chains.delete(oldest);
      tokens -= length;
    }
  }

  clear(): void {
    this.#chains.clear();
  }

  #put(key: string, chain: ChainBuilder): void {
    this.#chains.delete(key);
    this.#chains.set(key, chain);
  }
}

/** Who said what, up to each of the messages at these places, in order. */
function keysAt(messages: readonly Message[], places: readonly number[]): string[] {
  const hash = createHash("sha256");
  let from = 0;
  return places.map((place) => {
    for (const { role, content } of messages.slice(from, place + 1))
      hash.update(`${role} ${content.length} ${content}`);
    from = place + 1;
    return hash.copy().digest("base64");
  });
}

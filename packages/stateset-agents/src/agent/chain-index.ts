import { createHash } from "node:crypto";
import type { ChainBuilder } from "../conversation/chain.ts";
import type { Message } from "../conversation/message.ts";

/** Replies that somebody else wrote may follow the one that was sampled: so many of them. */
const lookBack = 4;

/**
 * The chains of conversations that an agent answered lately, for callers who keep the messages themselves and give all of them each
 * time. Found again by who said what so far, a conversation goes on from the tokens that were sampled, which messages do not tell.
 * Whether it really goes on the tokenizer decides (`extend`), which compares everything; so a chain too many is found at no harm.
 * Two conversations may have said the same and yet been sampled otherwise, in what they thought before: where nothing tells which of
 * them goes on, none does, and the one does not get the thoughts of the other.
 */
export class ChainIndex {
  readonly #most: { chains: number; tokens: number };
  /** By who said what and, behind a space, what was sampled. The order of a Map is that of insertion: the first is the one not asked for longest. */
  readonly #chains = new Map<string, ChainBuilder>();

  /** A token takes 13 bytes. */
  constructor(most = { chains: 256, tokens: 1 << 21 }) {
    this.#most = most;
  }

  get size(): number {
    return this.#chains.size;
  }

  /** The chain whose reply stands latest in these messages, among their last replies. `conversation` as it was kept with. */
  find(messages: readonly Message[], conversation = ""): ChainBuilder | undefined {
    const replies = [...messages.keys()].filter((i) => messages[i]!.role === "assistant").slice(-lookBack);
    const said = keysAt(messages, replies, conversation);
    for (let i = replies.length - 1; i >= 0; i--) {
      const known = [...this.#chains.keys()].filter((key) => key.startsWith(said[i]!));
      const key = known.length < 2 ? known[0] : this.#thinking(known, messages[replies[i]!]!.reasoning);
      if (key === undefined) continue;
      const chain = this.#chains.get(key)!;
      this.#put(key, chain);
      return chain;
    }
    return undefined;
  }

  /** The one of several that thought so before it said the same as the others. */
  #thinking(keys: readonly string[], reasoning = ""): string | undefined {
    const thought = (key: string) => (this.#chains.get(key)!.reply?.message.reasoning ?? "").trim();
    const own = keys.filter((key) => thought(key) === reasoning.trim());
    return reasoning.trim() !== "" && own.length === 1 ? own[0] : undefined;
  }

  /** `reply` as the caller got it. The chain must not grow any more. */
  keep(messages: readonly Message[], reply: Message, chain: ChainBuilder, conversation = ""): void {
    const [said] = keysAt([...messages, reply], [messages.length], conversation);
    const sampled = createHash("sha256").update(chain.reply?.text ?? "");
    this.#put(`${said} ${sampled.digest("base64")}`, chain);
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
function keysAt(messages: readonly Message[], places: readonly number[], conversation: string): string[] {
  const hash = createHash("sha256").update(`${conversation.length} ${conversation}`);
  let from = 0;
  return places.map((place) => {
    for (const { role, content } of messages.slice(from, place + 1))
      hash.update(`${role} ${content.length} ${content}`);
    from = place + 1;
    return hash.copy().digest("base64");
  });
}

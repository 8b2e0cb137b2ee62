import { createHash } from "node:crypto";
import type { ChainBuilder } from "../conversation/chain.ts";
import type { Message } from "../conversation/message.ts";

/**
 * The chains of conversations that an agent answered lately, for callers who keep the messages themselves and give all of them each
 * time. Found again by who said what so far, a conversation goes on from the tokens that were sampled, which messages do not tell.
 * Whether it really goes on the tokenizer decides (`extend`), which compares everything; so a chain too many is found at no harm.
 */
export class ChainIndex {
  readonly #most: number;
  /** The order of a Map is that of insertion: the first is the one not asked for longest. */
  readonly #chains = new Map<string, ChainBuilder>();

  constructor(most = 256) {
    this.#most = most;
  }

  get size(): number {
    return this.#chains.size;
  }

  /** The chain whose reply stands latest in these messages. */
  find(messages: readonly Message[]): ChainBuilder | undefined {
    const keys = keysOf(messages).filter((_, i) => messages[i]!.role === "assistant");
    const key = keys.findLast((key) => this.#chains.has(key));
    if (key === undefined) return undefined;
    const chain = this.#chains.get(key)!;
    this.#put(key, chain);
    return chain;
  }

  /** `reply` as the caller got it. The chain must not grow any more. */
  keep(messages: readonly Message[], reply: Message, chain: ChainBuilder): void {
    this.#put(keysOf([...messages, reply]).at(-1)!, chain);
    for (const oldest of this.#chains.keys()) {
      if (this.#chains.size <= this.#most) break;
      this.#chains.delete(oldest);
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

/** For each message: who said what up to it. */
function keysOf(messages: readonly Message[]): string[] {
  let key = "";
  return messages.map(({ role, content }) => {
    key = createHash("sha256")
      .update(JSON.stringify([key, role, content]))
      .digest("base64");
    return key;
  });
}

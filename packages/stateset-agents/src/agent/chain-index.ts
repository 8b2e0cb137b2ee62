import { createHash } from "node:crypto";
import type { ChainBuilder } from "../conversation/chain.ts";
import type { Message } from "../conversation/message.ts";
import { argumentsOf } from "../conversation/same-calls.ts";
import { fingerprint } from "../describe.ts";

/** Replies that somebody else wrote may follow the one that was sampled: so many of them. */
const lookBack = 4;

/** A chain, and what it is found by. */
interface Kept {
  chain: ChainBuilder;
  said: string;
  thought: string;
}

/** The keys of chains that said the same: all of them, and by what they thought before it. */
interface Alike {
  all: Set<string>;
  thinking: Map<string, Set<string>>;
}

/**
 * The chains of conversations that an agent answered lately, for callers who keep the messages themselves and give all of them each
 * time. Found again by who said what so far, a conversation goes on from the tokens that were sampled, which messages do not tell.
 * Whether it really goes on the tokenizer decides (`extend`), which compares everything; so a chain too many is found at no harm.
 * Two conversations may have said the same and yet been sampled otherwise, in what they thought before: where nothing tells which of
 * them goes on, none does, and the one does not get the thoughts of the other.
 * However many chains there are, finding and keeping one costs what its messages do.
 */
export class ChainIndex {
  readonly #most: { chains: number; tokens: number };
  /** By who said what and, behind a space, what was sampled. The order of a Map is that of insertion: the first is the one not asked for longest. */
  readonly #chains = new Map<string, Kept>();
  readonly #bySaid = new Map<string, Alike>();
  #tokens = 0;

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
      const key = this.#meant(said[i]!, messages[replies[i]!]!.reasoning);
      if (key === undefined) continue;
      const kept = this.#chains.get(key)!;
      this.#chains.delete(key);
      this.#chains.set(key, kept);
      return kept.chain;
    }
    return undefined;
  }

  /** The only one that said so; of several, the only one that thought so before. */
  #meant(said: string, reasoning = ""): string | undefined {
    const alike = this.#bySaid.get(said);
    if (!alike) return undefined;
    const thought = reasoning.trim();
    const own = alike.all.size === 1 ? alike.all : thought === "" ? undefined : alike.thinking.get(thought);
    return own?.size === 1 ? own.values().next().value : undefined;
  }

  /** `reply` as the caller got it. The chain must not grow any more. */
  keep(messages: readonly Message[], reply: Message, chain: ChainBuilder, conversation = ""): void {
    const [said] = keysAt([...messages, reply], [messages.length], conversation);
    const sampled = createHash("sha256").update(chain.reply?.text ?? "");
    const thought = (chain.reply?.message.reasoning ?? "").trim();
    this.#add(`${said} ${sampled.digest("base64")}`, { chain, said: said!, thought });
    for (const oldest of this.#chains.keys()) {
      if (this.#chains.size <= this.#most.chains && this.#tokens <= this.#most.tokens) break;
      this.#remove(oldest);
    }
  }

  clear(): void {
    this.#chains.clear();
    this.#bySaid.clear();
    this.#tokens = 0;
  }

  #add(key: string, kept: Kept): void {
    this.#remove(key);
    this.#chains.set(key, kept);
    this.#tokens += kept.chain.length;
    const { said, thought } = kept;
    const alike = this.#bySaid.get(said) ?? { all: new Set(), thinking: new Map() };
    this.#bySaid.set(said, alike);
    alike.all.add(key);
    const own = alike.thinking.get(thought) ?? new Set();
    alike.thinking.set(thought, own.add(key));
  }

  #remove(key: string): void {
    const kept = this.#chains.get(key);
    if (!kept) return;
    const { chain, said, thought } = kept;
    this.#chains.delete(key);
    this.#tokens -= chain.length;
    const { all, thinking } = this.#bySaid.get(said)!;
    all.delete(key);
    if (all.size === 0) this.#bySaid.delete(said);
    const own = thinking.get(thought)!;
    own.delete(key);
    if (own.size === 0) thinking.delete(thought);
  }
}

/** Who said and called what, up to each of the messages at these places, in order. */
function keysAt(messages: readonly Message[], places: readonly number[], conversation: string): string[] {
  const hash = createHash("sha256").update(`${conversation.length} ${conversation}`);
  let from = 0;
  return places.map((place) => {
    for (const { role, content, tool_calls = [] } of messages.slice(from, place + 1)) {
      // Spaces around a reply do not count, nor does how its calls are written or numbered.
      const words = role === "assistant" ? content.trim() : content;
      hash.update(`${role} ${words.length} ${words}`);
      for (const { function: call } of tool_calls)
        hash.update(` ${call.name.length} ${call.name} ${fingerprint(argumentsOf(call.arguments))}`);
    }
    from = place + 1;
    return hash.copy().digest("base64");
  });
}

import type { Message } from "./message.ts";
import type { ToolDefinition } from "./tool-definition.ts";
import type { ChainStart, TokenChain } from "./trajectory.ts";

/** What was sampled as one reply. */
export interface SampledReply {
  /** What the agent made of it, before any hook or environment changed it. */
  message: Message;
  /** Its words where its calls are told as such, because nobody answered them. */
  unanswered?: string;
  /** Its tokens as text, special tokens printed. */
  text: string;
  ended: ReplyEnd;
}

/**
 * How a reply ended: with a token that ends replies; with one that the sampling names beside; at its token limit; or where a stop
 * text appeared. That text was sampled but is no part of the message, so nothing can go on from there.
 */
export type ReplyEnd = "end-token" | "stop-token" | "length" | "stop-text";

/** What a chain's tokens stand for. */
export interface ChainState {
  /** The conversation in its prompt. */
  readonly messages: readonly Message[];
  /** Which of these messages were sampled into this chain, by index. */
  readonly sampled: ReadonlySet<number>;
  /** What was sampled after them; undefined while the prompt is unanswered. */
  readonly reply: SampledReply | undefined;
  readonly tools?: readonly ToolDefinition[] | undefined;
  readonly templateVariables?: Readonly<Record<string, unknown>> | undefined;
}

/** A whole prompt to begin a chain with. */
export interface ChainPrompt extends Pick<ChainState, "messages" | "tools" | "templateVariables"> {
  tokens: ArrayLike<number>;
  started?: ChainStart;
}

/**
 * Grows a TokenChain while a conversation runs: start with a prompt, record what was sampled, append the next prompt piece, …
 * Recorded tokens are never changed again; `build()` copies them out.
 */
export class ChainBuilder implements ChainState {
  #length = 0;
  #tokens = new Int32Array(256);
  #logprobs = new Float32Array(256);
  #learn = new Uint8Array(256);
  #turn = new Int32Array(256);
  #samplerLogprobs: Float32Array<ArrayBuffer> | undefined;
  #versions: Record<number, string> = {};
  #messages: readonly Message[];
  #reply: SampledReply | undefined;
  /** Where the last reply begins. */
  #replyStart = 0;
  #sampled = new Set<number>();
  readonly #started: ChainStart | undefined;
  readonly tools: readonly ToolDefinition[] | undefined;
  readonly templateVariables: Readonly<Record<string, unknown>> | undefined;

  constructor(prompt: ChainPrompt) {
    this.#messages = copied(prompt.messages);
    this.#started = prompt.started;
    this.tools = prompt.tools;
    this.templateVariables = prompt.templateVariables;
    this.#addPrompt(prompt.tokens);
  }

  get length(): number {
    return this.#length;
  }

  /** The tokens so far. A view: valid until the chain grows. */
  get tokens(): Int32Array {
    return this.#tokens.subarray(0, this.#length);
  }

  get messages(): readonly Message[] {
    return this.#messages;
  }

  get sampled(): ReadonlySet<number> {
    return this.#sampled;
  }

  get reply(): SampledReply | undefined {
    return this.#reply;
  }

  /** The tokens that the last reply answered. A view, as `tokens` is. */
  get prompt(): Int32Array {
    return this.#tokens.subarray(0, this.#replyStart);
  }

  /** Forgets the last reply, because its prompt is answered anew: only the reply that the conversation goes on with counts. */
  takeBack(): void {
    this.#learn.fill(0, this.#replyStart, this.#length);
    this.#logprobs.fill(0, this.#replyStart, this.#length);
    this.#length = this.#replyStart;
    this.#reply = undefined;
  }

  /** Adds the tokens that turn the chain into the prompt of `messages`, which hold the reply recorded last. */
  append(tokens: ArrayLike<number>, messages: readonly Message[]): void {
    if (!this.#reply) throw new RangeError("A chain grows by a prompt only after a reply.");
    this.#sampled.add(this.#messages.length);
    this.#messages = copied(messages);
    this.#reply = undefined;
    this.#addPrompt(tokens);
  }

  /** Adds what the policy sampled as turn number `turn`. With `learn: false` it is kept but never trained on; tokens that were `forced` are not either. */
  record(
    sample: {
      tokens: ArrayLike<number>;
      logprobs: ArrayLike<number>;
      version?: string;
      /** Under what was drawn from, where that was not the distribution of `logprobs`. */
      samplerLogprobs?: ArrayLike<number>;
    },
    reply: SampledReply,
    turn: number,
    options: { learn?: boolean; forced?: ArrayLike<number> | undefined } = {},
  ): void {
    if (sample.logprobs.length !== sample.tokens.length) {
      throw new RangeError(`${sample.tokens.length} sampled tokens came with ${sample.logprobs.length} log-probs.`);
    }
    if (this.#reply) throw new RangeError("A chain holds one reply to a prompt.");
    const from = this.#grow(sample.tokens);
    this.#replyStart = from;
    this.#logprobs.set(sample.logprobs, from);
    if (sample.samplerLogprobs) {
      // Where earlier replies were drawn plainly, the two are the same.
      this.#samplerLogprobs ??= this.#logprobs.slice();
      this.#samplerLogprobs.set(sample.samplerLogprobs, from);
    } else this.#samplerLogprobs?.set(sample.logprobs, from);
    if (sample.version !== undefined) this.#versions[turn] = sample.version;
    const { learn = true, forced = [] } = options;
    for (let i = from; i < this.#length; i++) this.#learn[i] = learn && !forced[i - from] ? 1 : 0;
    this.#turn.fill(turn, from, this.#length);
    this.#reply = reply;
  }

  /** A chain that begins with all this one holds and grows for itself. */
  fork(): ChainBuilder {
    const { tools, templateVariables, messages } = this;
    const started = this.#started && { started: this.#started };
    const chain = new ChainBuilder({ tools, templateVariables, messages, tokens: [], ...started });
    chain.#length = this.#length;
    chain.#tokens = this.#tokens.slice(0, this.#length);
    chain.#logprobs = this.#logprobs.slice(0, this.#length);
    chain.#learn = this.#learn.slice(0, this.#length);
    chain.#turn = this.#turn.slice(0, this.#length);
    chain.#samplerLogprobs = this.#samplerLogprobs?.slice(0, this.#length);
    chain.#versions = { ...this.#versions };
    chain.#reply = this.#reply;
    chain.#replyStart = this.#replyStart;
    chain.#sampled = new Set(this.#sampled);
    return chain;
  }

  build(): TokenChain {
    return {
      tokens: this.#tokens.slice(0, this.#length),
      logprobs: this.#logprobs.slice(0, this.#length),
      learn: this.#learn.slice(0, this.#length),
      turn: this.#turn.slice(0, this.#length),
      ...(this.#samplerLogprobs && { samplerLogprobs: this.#samplerLogprobs.slice(0, this.#length) }),
      versions: { ...this.#versions },
      ...(this.#started !== undefined && { started: this.#started }),
      prompt: {
        messages: this.#messages,
        ...(this.tools && { tools: this.tools }),
        ...(this.templateVariables && { templateVariables: this.templateVariables }),
      },
    };
  }

  #addPrompt(tokens: ArrayLike<number>): void {
    const from = this.#grow(tokens);
    this.#turn.fill(-1, from, this.#length);
  }

  #grow(tokens: ArrayLike<number>): number {
    const from = this.#length;
    const needed = from + tokens.length;
    if (needed > this.#tokens.length) {
      const capacity = Math.max(needed, this.#tokens.length * 2);
      this.#tokens = enlarged(this.#tokens, new Int32Array(capacity));
      this.#logprobs = enlarged(this.#logprobs, new Float32Array(capacity));
      this.#learn = enlarged(this.#learn, new Uint8Array(capacity));
      this.#turn = enlarged(this.#turn, new Int32Array(capacity));
      if (this.#samplerLogprobs) this.#samplerLogprobs = enlarged(this.#samplerLogprobs, new Float32Array(capacity));
    }
    this.#tokens.set(tokens, from);
    this.#length = needed;
    return from;
  }
}

/** Somebody may change a message that a chain was made of; the chain must not follow. */
function copied(messages: readonly Message[]): Message[] {
  return messages.map((message) => ({ ...message }));
}

function enlarged<T extends Int32Array<ArrayBuffer> | Float32Array<ArrayBuffer> | Uint8Array<ArrayBuffer>>(
  from: T,
  to: T,
): T {
  to.set(from);
  return to;
}

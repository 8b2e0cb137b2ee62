import type { TokenChain } from "./trajectory.ts";

/**
 * Grows a TokenChain while a conversation runs: start with a prompt, record what was sampled, append the next prompt piece, …
 * Recorded tokens are never changed again; `build()` copies them out.
 */
export class ChainBuilder {
  #length = 0;
  #tokens = new Int32Array(256);
  #logprobs = new Float32Array(256);
  #learn = new Uint8Array(256);
  #turn = new Int32Array(256);
  #text = "";

  /** A chain that begins with a whole prompt. `text` is what the tokens stand for, special tokens printed. */
  static start(prompt: ArrayLike<number>, text: string): ChainBuilder {
    const chain = new ChainBuilder();
    chain.append(prompt, text);
    return chain;
  }

  get length(): number {
    return this.#length;
  }

  /** The tokens so far. A view: valid until the chain grows. */
  get tokens(): Int32Array {
    return this.#tokens.subarray(0, this.#length);
  }

  get text(): string {
    return this.#text;
  }

  /** Adds tokens the policy did not sample. `text` is that of the whole chain with them, as tokenizer.extend gives it. */
  append(tokens: ArrayLike<number>, text: string): void {
    const from = this.#grow(tokens);
    this.#turn.fill(-1, from, this.#length);
    this.#text = text;
  }

  /** Adds what the policy sampled as turn number `turn`; `text` is what it stands for, special tokens printed. With `learn: false` it is kept but never trained on. */
  record(
    sample: { tokens: ArrayLike<number>; logprobs: ArrayLike<number> },
    text: string,
    turn: number,
    options: { learn?: boolean } = {},
  ): void {
    if (sample.logprobs.length !== sample.tokens.length) {
      throw new RangeError(`${sample.tokens.length} sampled tokens came with ${sample.logprobs.length} log-probs.`);
    }
    const from = this.#grow(sample.tokens);
    this.#logprobs.set(sample.logprobs, from);
    this.#learn.fill(options.learn === false ? 0 : 1, from, this.#length);
    this.#turn.fill(turn, from, this.#length);
    this.#text += text;
  }

  build(): TokenChain {
    return {
      tokens: this.#tokens.slice(0, this.#length),
      logprobs: this.#logprobs.slice(0, this.#length),
      learn: this.#learn.slice(0, this.#length),
      turn: this.#turn.slice(0, this.#length),
    };
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
    }
    this.#tokens.set(tokens, from);
    this.#length = needed;
    return from;
  }
}

function enlarged<T extends Int32Array<ArrayBuffer> | Float32Array<ArrayBuffer> | Uint8Array<ArrayBuffer>>(
  from: T,
  to: T,
): T {
  to.set(from);
  return to;
}

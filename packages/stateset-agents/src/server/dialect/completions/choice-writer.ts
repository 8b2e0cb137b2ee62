/** One choice of /v1/completions: told piece by piece, or all of it at once. */
import type { Sample, SampleToken } from "../../../policy/policy.ts";
import type { GivenText } from "../foreign-tokens.ts";
import type { CompletionCall } from "./read-request.ts";
import { TokenWriter, type WrittenTokens } from "./token-writer.ts";

export interface WrittenChoice {
  index: number;
  text: string;
  logprobs: WrittenTokens | null;
  finish_reason: "stop" | "length" | null;
  prompt_token_ids?: number[];
  token_ids?: number[];
}

export class ChoiceWriter {
  readonly #index: number;
  readonly #call: CompletionCall;
  readonly #prompt: GivenText;
  readonly #tokens: TokenWriter | undefined;
  #ids: number[] = [];
  #text: string;
  /** The prompt was not told of yet. */
  #first = true;

  constructor(index: number, call: CompletionCall, prompt: GivenText) {
    this.#index = index;
    this.#call = call;
    this.#prompt = prompt;
    this.#text = call.request.echo ? prompt.text : "";
    if (call.logprobs === undefined) return;
    this.#tokens = new TokenWriter(call.model.policy.tokenizer);
    if (!call.request.echo) this.#tokens.skip(prompt.tokens);
  }

  /** Of a prompt that is scored, before anything else. */
  score({ promptLogprobs = new Float32Array(), promptTopLogprobs }: Sample): void {
    for (const [i, token] of this.#prompt.tokens.entries()) {
      const logprob = i === 0 ? undefined : promptLogprobs[i]!;
      this.#tokens?.add({ token, logprob, topLogprobs: promptTopLogprobs?.[i] });
    }
  }

  push({ token, logprob, topLogprobs, text }: Omit<SampleToken, "request">): void {
    const { request, model } = this.#call;
    this.#text += text;
    if (request.return_token_ids) this.#ids.push(token);
    // What ends a reply is no part of its text.
    if (!model.policy.model.endTokens.includes(token)) this.#tokens?.add({ token, logprob, topLogprobs });
  }

  /** Whether there is anything to tell. */
  get waits(): boolean {
    return this.#text !== "";
  }

  /** What came since the last time; at its end, with how it ended. */
  take(finishReason: WrittenChoice["finish_reason"] = null): WrittenChoice {
    const ids = this.#call.request.return_token_ids === true;
    const piece: WrittenChoice = {
      ...{ index: this.#index, text: this.#text, logprobs: this.#tokens?.take() ?? null, finish_reason: finishReason },
      ...(ids && this.#first && { prompt_token_ids: [...this.#prompt.tokens] }),
      ...(ids && { token_ids: this.#ids }),
    };
    [this.#text, this.#ids, this.#first] = ["", [], false];
    return piece;
  }

  /** All of it, of a sample that is whole. */
  whole(sample: Sample): WrittenChoice {
    const { tokens, logprobs, topLogprobs, text } = sample;
    if (this.#call.scored) this.score(sample);
    for (const [i, token] of tokens.entries()) {
      this.push({ token, logprob: logprobs[i]!, topLogprobs: topLogprobs?.[i] ?? [], text: "" });
    }
    this.#text += text;
    return this.take(textFinishOf(sample));
  }
}

export function textFinishOf({ finishReason }: Sample): "stop" | "length" {
  return finishReason === "length" ? "length" : "stop";
}

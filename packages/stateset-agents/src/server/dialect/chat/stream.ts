/** A reply of /v1/chat/completions in chunks. */
import type { SampleToken, Version } from "../../../policy/policy.ts";
import type { Measure } from "../../draw.ts";
import type { EventStream } from "../../event-stream.ts";
import { type WrittenPosition, writeLogprob } from "../logprobs.ts";
import { usageOf } from "../usage.ts";
import { createLiveReply, type LiveReply, type Piece } from "./live-reply.ts";
import type { ChatCall } from "./read-request.ts";
import {
  type Choice,
  chatFinishOf,
  liveOptionsOf,
  type ReplyHead,
  type ReplyMessage,
  replyMessageOf,
} from "./reply.ts";

type Delta = Record<string, unknown>;

/** Writes the choices of one reply. */
export class ChunkWriter {
  readonly #stream: EventStream;
  readonly #call: ChatCall;
  /** What every chunk begins with: written thousands of times a second. */
  #head = "";
  readonly #headOf: (version: Version) => string;
  readonly #usage: string;
  readonly #choices: DeltaWriter[];
  #first: string;

  /** `whole`: nothing of a choice is given out before finish(). */
  constructor(
    stream: EventStream,
    head: ReplyHead,
    call: ChatCall,
    { whole, promptTokens }: { whole: boolean; promptTokens: Int32Array },
  ) {
    this.#stream = stream;
    this.#call = call;
    this.#headOf = (version) =>
      JSON.stringify({ ...head, object: "chat.completion.chunk", system_fingerprint: version }).slice(0, -1);
    this.#usage = call.request.stream_options?.include_usage ? ',"usage":null' : "";
    this.#first = call.request.return_token_ids ? `,"prompt_token_ids":${JSON.stringify([...promptTokens])}` : "";
    const write = (choice: string) => {
      stream.send(`${this.#head},"choices":[${choice}]${this.#usage}${this.#first}}`);
      this.#first = "";
    };
    this.#choices = Array.from({ length: call.n }, (_, index) => new DeltaWriter(index, call, whole, write));
  }

  /** The role of each choice, as soon as it is its turn. */
  begin(version: Version): void {
    this.#head = this.#headOf(version);
    for (const choice of this.#choices) choice.begin();
  }

  push(token: SampleToken): void {
    this.#choices[token.request]!.push(token);
  }

  finish(choices: readonly Choice[], measure: Measure): void {
    // Weights that were being loaded when it began may be those that answered.
    this.#head = this.#headOf(choices[0]!.sample.version);
    for (const [i, choice] of choices.entries()) this.#choices[i]!.finish(choice, replyMessageOf(choice, this.#call));
    if (this.#usage !== "") {
      const samples = choices.map(({ sample }) => sample);
      this.#stream.send(`${this.#head},"choices":[],"usage":${JSON.stringify(usageOf(measure, samples))}}`);
    }
    this.#stream.send("[DONE]");
    this.#stream.end();
  }
}

class DeltaWriter {
  readonly #index: number;
  readonly #call: ChatCall;
  readonly #live: LiveReply | undefined;
  readonly #write: (choice: string) => void;
  /** Of tokens that no chunk has told of yet. */
  #logprobs: WrittenPosition[] = [];
  #ids: number[] = [];
  #calls = 0;

  constructor(index: number, call: ChatCall, whole: boolean, write: (choice: string) => void) {
    this.#index = index;
    this.#call = call;
    this.#write = write;
    this.#live = whole
      ? undefined
      : createLiveReply({ ...liveOptionsOf(call), emit: (piece) => this.#send(this.#deltaOf(piece)) });
  }

  begin(): void {
    this.#send({ role: "assistant", content: "", refusal: null });
  }

  push(token: SampleToken): void {
    const { policy } = this.#call.model;
    if (this.#call.topLogprobs !== undefined && !policy.model.endTokens.includes(token.token))
      this.#logprobs.push(writeLogprob(token, policy.tokenizer));
    if (this.#call.request.return_token_ids) this.#ids.push(token.token);
    this.#live?.push(token);
  }

  finish(choice: Choice, message: ReplyMessage): void {
    if (this.#live) this.#live.end();
    else this.#sendWhole(message);
    this.#send({}, chatFinishOf(choice, message));
  }

  #sendWhole({ content, reasoning_content, tool_calls = [] }: ReplyMessage): void {
    if (reasoning_content) this.#send({ reasoning_content });
    if (content) this.#send({ content });
    for (const {
      function: { name, arguments: text },
    } of tool_calls) {
      const index = this.#calls;
      this.#send(this.#deltaOf({ kind: "call", index, name }));
      this.#send(this.#deltaOf({ kind: "arguments", index, text }));
    }
  }

  #deltaOf(piece: Piece): Delta {
    if (piece.kind === "text") return { content: piece.text };
    if (piece.kind === "reasoning") return { reasoning_content: piece.text };
    if (piece.kind === "arguments") {
      return { tool_calls: [{ index: piece.index, function: { arguments: piece.text } }] };
    }
    this.#calls = piece.index + 1;
    const id = this.#call.callId(piece.index);
    return {
      tool_calls: [{ index: piece.index, id, type: "function", function: { name: piece.name, arguments: "" } }],
    };
  }

  #send(delta: Delta, finishReason: string | null = null): void {
    const logprobs =
      this.#logprobs.length > 0 ? JSON.stringify({ content: this.#logprobs.splice(0), refusal: null }) : "null";
    const ids = this.#ids.length > 0 ? `,"token_ids":${JSON.stringify(this.#ids.splice(0))}` : "";
    const finish = finishReason === null ? "null" : `"${finishReason}"`;
    this.#write(
      `{"index":${this.#index},"delta":${JSON.stringify(delta)},"logprobs":${logprobs},"finish_reason":${finish}${ids}}`,
    );
  }
}

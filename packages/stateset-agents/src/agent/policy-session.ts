import { setImmediate as nextTurn } from "node:timers/promises";
import { withDeadline } from "../abort.ts";
import { ChainBuilder, type ReplyEnd } from "../conversation/chain.ts";
import { hasAnswered } from "../conversation/continues.ts";
import type { Message } from "../conversation/message.ts";
import type { ConstraintNotes, TokenChain, Turn } from "../conversation/trajectory.ts";
import { requireKnownRoles } from "../conversation/validate-messages.ts";
import { messageOf, StatesetError } from "../error.ts";
import {
  type Constrained,
  type Extension,
  isShaped,
  type Policy,
  type RenderOptions,
  type Sample,
  type SampleRequest,
  type SampleToken,
  type Sampling,
  shortened,
} from "../policy/policy.ts";
import { seedOf } from "../random.ts";
import type { CallFormat } from "../tool/format/call-format.ts";
import { type TellOptions, tellCalls } from "../tool/format/tell-calls.ts";
import { cutToTokens } from "../tool/result-text.ts";
import { ContextWindow, type ContextWindowOptions } from "./context-window.ts";
import { readReply } from "./read-reply.ts";
import { answerOnly } from "./reasoning.ts";
import type { ConversationSession, Reply, ReplyOptions } from "./session.ts";
import { createShownText } from "./shown-text.ts";
import { summarizeWith } from "./summarize.ts";
import { replyWithTools, type ToolLoop } from "./tool-loop.ts";

/** A reply with less room than this would be a stump; the conversation ends instead. */
const smallestReply = 16;

export interface PolicySessionOptions {
  policy: Policy;
  sampling: Sampling;
  system: string | undefined;
  seed: number;
  learn: boolean;
  keepActivations: boolean;
  reasoning: boolean;
  tools?: RenderOptions["tools"];
  templateVariables?: RenderOptions["templateVariables"];
  contextWindow?: ContextWindowOptions | undefined;
  /** How calls are written; undefined: they are not read. */
  format?: CallFormat | undefined;
  /** How calls and results are told, where they are read. */
  tell?: TellOptions | undefined;
  /** Holds calls to the schemas of their tools. */
  constraint?: SampleRequest["constraint"];
  /** Runs the calls that are read. */
  loop?: Omit<ToolLoop, "cut"> | undefined;
  /** Tokens of a tool's result that the model is shown at most. */
  maxResultTokens: number;
  /** Where the conversation got to before this session. It stays as it is; the session goes on with a copy. */
  chain?: ChainBuilder | undefined;
  /** Changes the messages before they are rendered. To keep tokens one chain, equal beginnings must stay equal. */
  before?: (messages: readonly Turn[]) => Message[] | Promise<Message[]>;
  /** Changes the reply the user and the environment see. What was sampled stays recorded as sampled. */
  after?: (reply: Turn, messages: readonly Turn[]) => Turn | Promise<Turn>;
}

/** What a reply is sampled from. */
export interface Prompt {
  tokens: Int32Array;
  /** Tokens that a reply may take; none or less where the conversation is too long. */
  room: number;
  /** The conversation as it was given, and as it stands in the tokens. */
  messages: readonly Turn[];
  prompt: readonly Message[];
  /** How it lies to the chain that the conversation goes on from. */
  place: Extension | "again";
}

/** The one way an agent turns messages into a reply: in rollouts, in generateResponse, in the server. */
export class PolicySession implements ConversationSession {
  readonly #options: PolicySessionOptions;
  readonly #window: ContextWindow | undefined;
  readonly #chains: ChainBuilder[] = [];
  #stub = false;
  #busy = false;

  constructor(options: PolicySessionOptions) {
    this.#options = options;
    this.#window = options.contextWindow && new ContextWindow(options.contextWindow);
    if (options.chain) this.#chains.push(options.chain.fork());
  }

  get temperature(): number {
    return this.#options.sampling.temperature;
  }

  get stub(): boolean {
    return this.#stub;
  }

  /** What the conversation goes on from. Valid as it is until the next reply. */
  get lastChain(): ChainBuilder | undefined {
    return this.#chains.at(-1);
  }

  chains(): TokenChain[] {
    return this.#chains.map((chain) => chain.build());
  }

  cutResult(text: string): string {
    const { maxResultTokens, policy } = this.#options;
    return cutToTokens(text, maxResultTokens, (part) => policy.tokenizer.encode(part).length);
  }

  async reply(messages: readonly Turn[], options: ReplyOptions = {}): Promise<Reply> {
    if (this.#busy) {
      throw new StatesetError("INVALID_MESSAGE", "A reply of this conversation is still being sampled.", {
        hint: "Await it, or start another conversation: those can run side by side.",
      });
    }
    this.#busy = true;
    try {
      const { loop } = this.#options;
      const sample = async (shown: readonly Turn[], own: ReplyOptions) => {
        const reply = await this.#reply(shown, own);
        if (reply.kind === "reply") options.onTurn?.(reply.turn);
        return reply;
      };
      if (!loop) return await sample(messages, options);
      const cut = (text: string) => this.cutResult(text);
      return await replyWithTools(sample, messages, options, { ...loop, cut });
    } finally {
      this.#busy = false;
    }
  }

  async #reply(messages: readonly Turn[], options: ReplyOptions): Promise<Reply> {
    const { policy, sampling, learn, keepActivations, reasoning, format, constraint } = this.#options;
    const seed = options.seed ?? seedOf(this.#options.seed, "turn", messages.length);
    const prompt = await this.prepare(messages, { seed, ...(options.signal && { signal: options.signal }) });
    if (!prompt) return { kind: "context-full", promptTokens: policy.model.contextLength, turns: [] };
    const { room } = prompt;
    const promptTokens = prompt.tokens.length;
    if (room < Math.min(sampling.maxTokens, smallestReply)) return { kind: "context-full", promptTokens, turns: [] };

    // Conversations that got this far in the same turn of the event loop are sampled together from their first token.
    await nextTurn();
    const answer = reasoning && options.onText ? answerOnly(options.onText) : undefined;
    const onText = answer?.push ?? options.onText;
    const shownText = format && onText && createShownText(format, policy.tokenizer, onText);
    const onToken = shownText ? shownText.push : onText && (({ text }: SampleToken) => onText(text));
    const sample = await this.#draw(
      {
        tokens: prompt.tokens,
        sampling: shortened(sampling, room),
        seed,
        samplerLogprobs: learn && (isShaped(sampling) || constraint !== undefined),
        constraint,
        keepActivations,
      },
      { signal: options.signal, onToken },
    );
    const { turn, said, chain } = await this.take(prompt, sample, options);
    if (!said.tool_calls) shownText?.end();
    answer?.end();
    if (chain !== this.#chains.at(-1)) this.#chains.push(chain);
    this.#stub ||= sample.stub === true;
    return {
      kind: "reply",
      turn,
      turns: [turn],
      finishReason: turn.sampled!.finishReason,
      promptTokens,
      sampledTokens: sample.tokens.length,
      stub: sample.stub === true,
    };
  }

  /** The tokens to sample a reply from; undefined where no context window can make the conversation fit. Changes nothing: whoever samples gives the sample to take(). */
  async prepare(
    messages: readonly Turn[],
    options: { seed?: number; signal?: AbortSignal; addGenerationPrompt?: boolean } = {},
  ): Promise<Prompt | undefined> {
    const { policy, before } = this.#options;
    const { contextLength } = policy.model;
    const shown = before ? await hook("beforeGeneration", () => before(messages), options.signal) : messages;
    requireKnownRoles(shown);
    const prompt = await this.#fit(shown, options.seed ?? this.#options.seed, options.signal);
    if (!prompt) return undefined;
    const last = this.#chains.at(-1);
    // Asked the same again, the conversation goes on from there: only one of the two replies is part of it.
    if (last && hasAnswered(last, prompt)) {
      const tokens = last.prompt.slice();
      return { tokens, room: contextLength - tokens.length, messages, prompt, place: "again" };
    }
    const { addGenerationPrompt = true } = options;
    const place = policy.tokenizer.extend(last, prompt, { ...this.#render(), addGenerationPrompt });
    const tokens = place.kind === "append" ? joined(last!.tokens, place.tokens) : place.tokens;
    return { tokens, room: contextLength - tokens.length, messages, prompt, place };
  }

  /**
   * Makes a reply of what was sampled from a prompt, and the chain it is part of. With `fork` the session's own chain stays as it is, so
   * that several samples can be taken of one prompt.
   */
  async take(
    prompt: Prompt,
    sample: Sample,
    { fork = false, signal }: { fork?: boolean; signal?: AbortSignal } = {},
  ): Promise<{ turn: Turn; said: Turn; chain: ChainBuilder }> {
    const { policy, sampling, learn, reasoning, format, after } = this.#options;
    const { tokenizer } = policy;
    const { messages, place } = prompt;
    const said = readReply(sample, { tokenizer, endTokens: policy.model.endTokens, reasoning, format, messages });
    const text = tokenizer.decode(sample.tokens, { skipSpecial: false });
    const sampled: Turn["sampled"] = {
      text,
      finishReason: sample.finishReason === "length" ? "length" : "stop",
      ...(sample.constrained && { constrained: constraintNotes(sample.constrained) }),
    };
    // A hook may build the turn anew; what was sampled stays with it.
    const changed = after && (await hook("afterGeneration", () => after({ ...said, sampled }, messages), signal));
    const turn = { ...(changed ?? said), sampled };

    // Only now, so that a reply that was interrupted, or whose hook failed, leaves the chains as they were.
    const ended = endOf(sample, policy.model.endTokens, sampling.stopTokens);
    const last = fork ? this.#chains.at(-1)?.fork() : this.#chains.at(-1);
    const chain =
      place !== "again" && place.kind === "restart"
        ? new ChainBuilder({
            ...this.#render(),
            ...{ messages: prompt.prompt, tokens: place.tokens, started: place.reason },
          })
        : last!;
    if (place === "again") chain.takeBack();
    else if (place.kind === "append") chain.append(place.tokens, prompt.prompt);
    const message = this.#told([said])[0]!;
    const { content: unanswered } = this.#told([said, { role: "user", content: "" }])[0]!;
    const forced = sample.constrained?.forced;
    chain.record(sample, { message, unanswered, text, ended }, messages.length, { learn, forced });
    return { turn, said, chain };
  }

  #render(): RenderOptions {
    const { tools, templateVariables } = this.#options;
    return { tools, templateVariables, addGenerationPrompt: true };
  }

  /** Tokens that a prompt of these messages alone, with the system prompt, takes. */
  countTokens(messages: readonly Message[]): number {
    return this.#options.policy.tokenizer.extend(undefined, this.#headed(messages), this.#render()).tokens.length;
  }

  /** Tokens that a prompt may take: what a context window keeps free for a reply is not among them. */
  get room(): number {
    const { policy, sampling } = this.#options;
    const { contextLength } = policy.model;
    if (!this.#window) return contextLength - Math.min(sampling.maxTokens, smallestReply);
    return contextLength - Math.min(sampling.maxTokens, Math.floor(contextLength / 2));
  }

  #headed(shown: readonly Message[]): Message[] {
    const { head, messages } = this.#split(shown);
    return head ? [head, ...messages] : [...messages];
  }

  /** As the template can print it. */
  #told(messages: readonly Message[]): readonly Message[] {
    const { tell } = this.#options;
    return tell ? tellCalls(messages, tell) : messages;
  }

  /** A conversation that brings its own system message keeps it. */
  #split(given: readonly Message[]): { head: Message | undefined; messages: readonly Message[] } {
    const { system } = this.#options;
    const shown = this.#told(given);
    if (shown[0]?.role === "system" || shown[0]?.role === "developer") {
      return { head: shown[0], messages: shown.slice(1) };
    }
    return { head: system === undefined ? undefined : { role: "system", content: system }, messages: shown };
  }

  async #fit(shown: readonly Message[], seed: number, signal: AbortSignal | undefined): Promise<Message[] | undefined> {
    const { policy, templateVariables } = this.#options;
    if (!this.#window) return this.#headed(shown);
    const { head, messages } = this.#split(shown);
    return this.#window.fit({
      system: head?.content,
      systemRole: head?.role,
      messages,
      budget: this.room,
      countTokens: (prompt) => {
        const last = this.#chains.at(-1);
        const { kind, tokens } = policy.tokenizer.extend(last, prompt, this.#render());
        return tokens.length + (kind === "append" ? last!.length : 0);
      },
      summarize: (part, maxTokens) =>
        summarizeWith(policy, part, {
          maxTokens,
          seed: seedOf(seed, "summary"),
          templateVariables,
          ...(signal && { signal }),
        }),
    });
  }

  async #draw(
    request: SampleRequest,
    { signal, onToken }: { signal: AbortSignal | undefined; onToken: ((token: SampleToken) => void) | undefined },
  ): Promise<Sample> {
    const [sample] = await this.#options.policy.sample([request], {
      ...(signal && { signal }),
      ...(onToken && { onToken }),
    });
    if (sample!.finishReason === "aborted")
      throw new StatesetError("ABORTED", "Stopped while sampling a reply.", { cause: signal?.reason });
    return sample!;
  }
}

function endOf(
  { tokens, finishReason }: Sample,
  endTokens: readonly number[],
  stopTokens: readonly number[],
): ReplyEnd {
  const last = tokens.at(-1) ?? -1;
  if (endTokens.includes(last)) return "end-token";
  if (stopTokens.includes(last)) return "stop-token";
  return finishReason === "length" ? "length" : "stop-text";
}

function constraintNotes({ forced, removed }: Constrained): ConstraintNotes {
  const notes: ConstraintNotes = { tokens: 0, forced: 0, removed: 0 };
  for (const [i, gone] of removed.entries()) {
    if (gone > 0 || forced[i]) notes.tokens++;
    notes.forced += forced[i]!;
    notes.removed += gone;
  }
  return notes;
}

function joined(a: Int32Array, b: Int32Array): Int32Array {
  const all = new Int32Array(a.length + b.length);
  all.set(a);
  all.set(b, a.length);
  return all;
}

/** Hooks are somebody's code: what they throw is said to be theirs, and an abort does not wait for one that hangs. */
async function hook<T>(name: string, run: () => T | Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  const call = async () => {
    try {
      return await run();
    } catch (error) {
      throw new StatesetError("HOOK_FAILED", `The agent's ${name} threw: ${messageOf(error)}`, { cause: error });
    }
  };
  return signal ? withDeadline(call, { signal, during: `during the agent's ${name}` }) : call();
}

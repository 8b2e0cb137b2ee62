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
  isShaped,
  type Policy,
  type RenderOptions,
  type Sample,
  type SampleRequest,
  type SampleToken,
  type Sampling,
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
    const { policy, sampling, learn, reasoning, format, constraint, before, after } = this.#options;
    const turn = messages.length;
    const seed = options.seed ?? seedOf(this.#options.seed, "turn", turn);
    const shown = before ? await hook("beforeGeneration", () => before(messages), options.signal) : messages;
    requireKnownRoles(shown);
    const prompt = await this.#fit(shown, seed, options.signal);
    if (!prompt) return { kind: "context-full", promptTokens: policy.model.contextLength, turns: [] };

    const last = this.#chains.at(-1);
    // Asked the same again, the conversation goes on from there: only one of the two replies is part of it.
    const again = last !== undefined && hasAnswered(last, prompt);
    const next = again ? undefined : policy.tokenizer.extend(last, prompt, this.#render());
    const tokens = again
      ? last.prompt.slice()
      : next!.kind === "append"
        ? joined(last!.tokens, next!.tokens)
        : next!.tokens;
    const promptTokens = tokens.length;
    const room = policy.model.contextLength - promptTokens;
    if (room < Math.min(sampling.maxTokens, smallestReply)) return { kind: "context-full", promptTokens, turns: [] };

    // Conversations that got this far in the same turn of the event loop are sampled together from their first token.
    await nextTurn();
    const { tokenizer } = policy;
    const answer = reasoning && options.onText ? answerOnly(options.onText) : undefined;
    const onText = answer?.push ?? options.onText;
    const shownText = format && onText && createShownText(format, tokenizer, onText);
    const onToken = shownText ? shownText.push : onText && (({ text }: SampleToken) => onText(text));
    const sample = await this.#draw(
      {
        tokens,
        sampling: { ...sampling, maxTokens: Math.min(sampling.maxTokens, room) },
        seed,
        samplerLogprobs: learn && (isShaped(sampling) || constraint !== undefined),
        constraint,
      },
      { signal: options.signal, onToken },
    );
    const said = readReply(sample, { tokenizer, endTokens: policy.model.endTokens, reasoning, format, messages });
    if (!said.tool_calls) shownText?.end();
    answer?.end();
    const text = tokenizer.decode(sample.tokens, { skipSpecial: false });
    const finishReason = sample.finishReason === "length" ? "length" : "stop";
    const sampled: Turn["sampled"] = {
      text,
      finishReason,
      ...(sample.constrained && { constrained: constraintNotes(sample.constrained) }),
    };
    // A hook may build the turn anew; what was sampled stays with it.
    const changed =
      after && (await hook("afterGeneration", () => after({ ...said, sampled }, messages), options.signal));
    const given = { ...(changed ?? said), sampled };

    // Only now, so that a reply that was interrupted, or whose hook failed, leaves the chains as they were.
    const ended = endOf(sample, policy.model.endTokens, sampling.stopTokens);
    if (!next) last!.takeBack();
    else if (next.kind === "append") last!.append(next.tokens, prompt);
    else
      this.#chains.push(
        new ChainBuilder({ ...this.#render(), messages: prompt, tokens: next.tokens, started: next.reason }),
      );
    const message = this.#told([said])[0]!;
    const { content: unanswered } = this.#told([said, { role: "user", content: "" }])[0]!;
    const forced = sample.constrained?.forced;
    this.#chains.at(-1)!.record(sample, { message, unanswered, text, ended }, turn, { learn, forced });
    this.#stub ||= sample.stub === true;
    return {
      kind: "reply",
      turn: given,
      turns: [given],
      finishReason,
      promptTokens,
      sampledTokens: sample.tokens.length,
      stub: sample.stub === true,
    };
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

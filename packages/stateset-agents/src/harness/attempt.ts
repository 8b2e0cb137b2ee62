/** One attempt at a rollout: the calls its agent makes, recorded as they are sampled, until it is closed. */
import { linkSignals } from "../abort.ts";
import { openSession } from "../agent/multi-turn-agent.ts";
import type { PolicySession, Prompt } from "../agent/policy-session.ts";
import { sameMessages } from "../conversation/continues.ts";
import { sameJson } from "../conversation/same-json.ts";
import type { TokenChain, Turn } from "../conversation/trajectory.ts";
import { fingerprint } from "../describe.ts";
import { messageOf, StatesetError } from "../error.ts";
import { isShaped, type Sample, type Sampling } from "../policy/policy.ts";
import { seedOf } from "../random.ts";
import { type ChatBook, type OpenedCall, requireRoom } from "../server/dialect/chat/book.ts";
import { type ChatCall, variablesOf } from "../server/dialect/chat/read-request.ts";
import type { Exchange } from "../server/exchange.ts";
import { HttpError, httpErrorOf } from "../server/http-error.ts";
import type { CapturedCall } from "./captured-call.ts";
import {
  type BrokenReply,
  type CapturedReply,
  type Conversations,
  conversationsOf,
  wayTo,
} from "./captured-replies.ts";
import type { HarnessReward } from "./harness-reward.ts";
import { ownSampling } from "./own-sampling.ts";

export interface AttemptOptions {
  scenarioId: string;
  trajectoryId: string;
  attempt: number;
  /** Of the rollout: its members differ by it. */
  seed: number;
  /** The trainer's. */
  sampling: Readonly<Sampling>;
  learn: boolean;
  keepActivations: boolean | undefined;
  /** Replies of one conversation at most. */
  maxTurns: number;
  onReply?: ((tokens: number) => void) | undefined;
  onCall?: ((call: CapturedCall) => void) | undefined;
}

type Posted = Exclude<HarnessReward, number>;

export class Attempt implements ChatBook {
  readonly #options: AttemptOptions;
  readonly #replies: CapturedReply[] = [];
  readonly #broken: BrokenReply[] = [];
  /** How often the same was asked for. */
  readonly #asked = new Map<string, number>();
  readonly #drawing = new Set<Promise<unknown>>();
  readonly #ended = new AbortController();
  /** Fields of requests that were not followed. */
  readonly overridden = new Set<string>();
  /** The reward that was posted, if any. */
  posted: Posted | undefined;
  /** What kept the conversation from going on. */
  limit: "context-full" | "max-turns" | undefined;
  /** What the policy or the agent's hooks failed with: no doing of the harness. */
  fault: { error: unknown } | undefined;
  /** What its last call that was refused was told. */
  refused: string | undefined;
  stub = false;

  constructor(options: AttemptOptions) {
    this.#options = options;
  }

  get number(): number {
    return this.#options.attempt;
  }

  /** A reward may be posted again, as retries do; not another. */
  post(reward: Posted): { reward: number } {
    if (this.posted && !sameJson(this.posted, reward)) {
      throw new HttpError(409, "The rollout has another reward already.", { code: "reward_given", headers: noRetry });
    }
    this.posted = reward;
    return { reward: reward.reward };
  }

  /** A request of this attempt, which ends with it. What `answer` fails with by no doing of the client is kept. */
  async serve<T>(exchange: Exchange, answer: (own: Exchange) => Promise<T>): Promise<T> {
    const { signal } = linkSignals(exchange.signal, this.#ended.signal);
    const failed = (error: unknown) => {
      const { status, message } = httpErrorOf(error);
      if (!(error instanceof HttpError) && status >= 500) this.fault ??= { error };
      if (status < 499) this.refused = `${status} ${message}`;
      return exchange.failed(error);
    };
    try {
      return await answer({ ...exchange, signal, failed });
    } catch (error) {
      failed(error);
      throw error;
    }
  }

  async open(call: ChatCall, exchange: Exchange): Promise<OpenedCall> {
    const { messages, constraint, request } = call;
    const { sampling: trainer, seed: own, attempt, learn, keepActivations = false } = this.#options;
    const { sampling, overridden } = ownSampling(request, call.sampling, trainer);
    for (const field of overridden) this.overridden.add(field);
    const { session, prompt, from } = await this.#place(call, sampling, exchange.signal);
    if (from && wayTo(from).length >= this.#options.maxTurns) throw this.#refuse("max-turns", tooManyTurns());
    // Not by who came first: what is asked, and how often it was asked before, says which draw it is.
    const { response_format, tool_choice, parallel_tool_calls } = request;
    const key = fingerprint([prompt.tokens, sampling, response_format, tool_choice, parallel_tool_calls]);
    const asked = this.#asked.get(key) ?? 0;
    this.#asked.set(key, asked + 1);
    const seed = seedOf(own, "attempt", attempt, "call", key, asked);
    const told = { call, exchange, sampling, seed, prompt, from };
    let choice = 0;
    return {
      ...{ session, prompt, sampling, seed },
      samplerLogprobs: learn && (isShaped(sampling) || constraint !== undefined),
      keepActivations,
      keep: ({ sample, turn }, chain) => {
        this.#replies.push({ key, asked, choice: choice++, from, messages, turn, chain });
        this.#tell(told, sample, turn);
      },
      broken: (samples) => {
        for (const sample of samples) {
          const chain = brokenChain(prompt, sample, messages.length);
          this.#broken.push({ key, asked, choice: choice++, chain });
          this.#tell(told, sample, undefined);
        }
      },
      drawing: (replies) => {
        const settled = replies.catch(() => {}).finally(() => this.#drawing.delete(settled));
        this.#drawing.add(settled);
      },
    };
  }

  /** Ends what is still sampled, and waits for it: whoever steps afterwards meets nobody. */
  async close(): Promise<void> {
    this.#ended.abort(new HttpError(503, "The rollout has ended.", { code: "rollout_ended", headers: noRetry }));
    while (this.#drawing.size > 0) await Promise.all(this.#drawing);
  }

  get calls(): { answered: number; broken: number } {
    return { answered: this.#replies.length, broken: this.#broken.length };
  }

  conversations(): Conversations {
    const told = this.#broken.filter(({ chain }) => chain.turn.some((turn) => turn >= 0));
    return conversationsOf(this.#replies, told);
  }

  /** Among the replies so far, the one whose tokens the prompt begins with; the longest of several. */
  async #place(
    call: ChatCall,
    sampling: Sampling,
    signal: AbortSignal,
  ): Promise<{ session: PolicySession; prompt: Prompt; from: CapturedReply | undefined }> {
    const { model, messages, tools, constraint, request } = call;
    const { learn } = this.#options;
    const seed = seedOf(this.#options.seed, "prompt", fingerprint(messages));
    const options = { tools, sampling, seed, constraint, learn, ...variablesOf(request) };
    const said = this.#replies.filter((reply) => isBefore(reply, messages));
    // The last of those that are as long: of a call that was repeated, the client heard that one.
    for (const from of said.sort((a, b) => b.messages.length - a.messages.length || b.asked - a.asked)) {
      const session = openSession(model.agent, options, from.chain);
      const prompt = await session.prepare(messages, { seed, signal });
      if (prompt && prompt.place !== "again" && prompt.place.kind === "append") {
        return { session, prompt: this.#roomy(call, prompt), from };
      }
    }
    const session = openSession(model.agent, options);
    const prompt = this.#roomy(call, await session.prepare(messages, { seed, signal }));
    return { session, prompt, from: undefined };
  }

  #roomy(call: ChatCall, prompt: Prompt | undefined): Prompt {
    try {
      return requireRoom(call, prompt);
    } catch (error) {
      throw this.#refuse("context-full", error as HttpError);
    }
  }

  #refuse(limit: "context-full" | "max-turns", error: HttpError): HttpError {
    this.limit ??= limit;
    return error;
  }

  #tell({ call, exchange, sampling, seed, prompt, from }: Told, sample: Sample, reply: Turn | undefined): void {
    const { scenarioId, trajectoryId, attempt, onReply, onCall } = this.#options;
    this.stub ||= sample.stub === true;
    if (reply) onReply?.(sample.tokens.length);
    const { tokens, logprobs, version } = sample;
    const { queuedMs = 0, firstTokenMs = 0 } = exchange.measure;
    try {
      onCall?.({
        ...{ scenarioId, trajectoryId, attempt, messages: call.messages, tools: call.tools, sampling, seed },
        ...{ promptTokens: prompt.tokens, tokens, logprobs, version, reply, chain: from ? "continued" : "started" },
        timing: { queuedMs, firstTokenMs, durationMs: performance.now() - exchange.arrived },
      });
    } catch (cause) {
      throw new StatesetError("HOOK_FAILED", `The harness's onCall threw: ${messageOf(cause)}`, { cause });
    }
  }
}

interface Told extends Pick<OpenedCall, "sampling" | "seed" | "prompt"> {
  call: ChatCall;
  exchange: Exchange;
  from: CapturedReply | undefined;
}

const noRetry = { "x-should-retry": "false" };

function tooManyTurns(): HttpError {
  return new HttpError(400, "The conversation has as many replies as train({ maxTurns }) allows.", {
    ...{ code: "max_turns", headers: noRetry },
  });
}

/** Whether these messages may go on from a reply: as far as it goes, they are those it answered. */
function isBefore(reply: CapturedReply, messages: readonly Turn[]): boolean {
  const { length } = reply.messages;
  return messages[length]?.role === "assistant" && sameMessages(reply.messages, messages.slice(0, length));
}

/** What there was of a reply, of which nothing is learnt. */
function brokenChain({ tokens: before, prompt }: Prompt, sample: Sample, turn: number): TokenChain {
  const [at, length] = [before.length, before.length + sample.tokens.length];
  const tokens = new Int32Array(length);
  const logprobs = new Float32Array(length);
  tokens.set(before);
  tokens.set(sample.tokens, at);
  logprobs.set(sample.logprobs, at);
  const turns = new Int32Array(length).fill(-1).fill(turn, at);
  const versions = { [turn]: sample.version };
  return { tokens, logprobs, learn: new Uint8Array(length), turn: turns, versions, prompt: { messages: prompt } };
}

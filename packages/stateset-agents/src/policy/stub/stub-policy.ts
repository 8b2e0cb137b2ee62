import { setImmediate } from "node:timers/promises";
import { z } from "zod";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { seedOf } from "../../random.ts";
import { ArrayVector } from "../array-vector.ts";
import { noMemory } from "../no-memory.ts";
import type {
  Forward,
  ForwardOptions,
  ModelInfo,
  Policy,
  Sample,
  SampleRequest,
  SampleToken,
  TokenTree,
} from "../policy.ts";
import type { LoadedTokenizer } from "../tokenizer/chat-tokenizer.ts";
import { createReplyText } from "../tokenizer/reply-text.ts";
import { createByteTokenizer, endOfTurn, startOfTurn } from "./byte-tokenizer.ts";
import { readMark, writeMark } from "./mark.ts";

/** What a reply function is told. */
export interface StubPrompt {
  /** The prompt as text, special tokens printed. */
  prompt: string;
  seed: number;
  /** How many assistant turns the prompt already holds. */
  turn: number;
}

export type StubReplies = readonly string[] | ((prompt: StubPrompt) => string);

export interface StubOptions {
  /** Said in turn, from a place the seed decides; or a function of the prompt. Default: one sentence that says it is a stub. */
  replies?: StubReplies;
  /** Its name, `stub://…`. */
  model?: string;
  /** Let training run through without learning: forward gives uniform log-probs, backward and step do nothing. */
  dryRun?: boolean;
  /** In tokens, that is bytes. */
  contextLength?: number;
}

const schema = z.strictObject({
  replies: z
    .union([
      z.array(z.string()).min(1),
      z.custom<(prompt: StubPrompt) => string>((value) => typeof value === "function"),
    ])
    .default(["This is a scripted reply from a stub model."]),
  model: z.string().startsWith("stub://").default("stub://scripted"),
  dryRun: z.boolean().default(false),
  contextLength: z.int().min(16).default(65_536),
});

/**
 * A policy without a model, for trying out everything around one: it says scripted replies, with the log-probs of a uniform
 * distribution over bytes. Whatever it makes is marked `stub`.
 *
 * @example
 * const policy = createStubPolicy({ replies: ["Hello!", "How can I help?"] });
 */
export function createStubPolicy(options: StubOptions = {}): Policy & { readonly tokenizer: LoadedTokenizer } {
  const { replies, model: name, dryRun, contextLength } = parseOptions(schema, options, "createStubPolicy()");
  const tokenizer = createByteTokenizer();
  const logprob = Math.fround(-Math.log(tokenizer.vocabSize));
  const counts = { running: 0, promptTokens: 0, sampledTokens: 0 };
  const unchanged = { version: name, drained: false };
  let valueHead = false;
  let closed = false;

  const live = () => {
    if (closed) throw new StatesetError("POLICY_CLOSED", `The stub ${name} was used after close().`);
  };
  const trainable = (what: string) => {
    live();
    if (!dryRun) {
      throw new StatesetError("NOT_TRAINABLE", `${name} is a stub: it has no weights, so ${what} is impossible.`, {
        hint: "Name a real model, or ask for a dry run (dryRun: true) to exercise the training loop without learning anything.",
      });
    }
  };
  const info = (): ModelInfo => ({
    name,
    digest: name,
    architecture: "stub",
    parameters: 0,
    trainableParameters: 0,
    hiddenSize: 1,
    layers: 0,
    vocabSize: tokenizer.vocabSize,
    contextLength,
    endTokens: tokenizer.endTokens,
    valueHead,
    stub: true,
  });
  const replyTo = ({ tokens, seed }: SampleRequest): string => {
    const prompt = tokenizer.decode(tokens, { skipSpecial: false });
    // Whoever writes "<|im_start|>assistant" begins no turn.
    const opens = (at: number) => tokenizer.decode(tokens.subarray(at + 1, at + 11)) === "assistant\n";
    const openings = [...tokens.keys()].filter((at) => tokens[at] === startOfTurn && opens(at));
    const turn = Math.max(0, openings.length - 1);
    if (typeof replies !== "function") return replies[(seedOf(seed, "stub") + turn) % replies.length]!;
    const reply: unknown = replies({ prompt, seed, turn });
    if (typeof reply === "string") return reply;
    throw new StatesetError("INVALID_OPTION", `The reply function of ${name} returned ${typeof reply}, not a string.`);
  };
  const forward = (batch: TokenTree, options: ForwardOptions): Forward => ({
    logprobs: Float32Array.from(batch.wanted, (wanted) => (wanted ? logprob : 0)),
    ...(options.entropy && { entropy: Float32Array.from(batch.wanted, (wanted) => (wanted ? -logprob : 0)) }),
    ...(options.values && { values: new Float32Array(batch.tokens.length) }),
    ...(options.hidden && { hidden: new Float32Array(batch.tokens.length) }),
    release() {},
  });

  return {
    get model() {
      return info();
    },
    tokenizer,
    version: name,
    // It repeats its script whatever the seed says, and scores nothing.
    capabilities: { exact: dryRun, seeded: true, entropy: dryRun, values: dryRun, hidden: dryRun, vectors: dryRun },
    stats: () => ({ ...counts, waiting: 0, slots: 1, cacheBytes: 0, cachedTokens: 0, versions: 1 }),
    async sample(requests, { signal, onToken } = {}) {
      live();
      requests.forEach(({ tokens }, index) => {
        if (tokens.length >= contextLength) {
          throw new StatesetError(
            "CONTEXT_OVERFLOW",
            `Request ${index} has ${tokens.length} prompt tokens; ${name} takes ${contextLength}, the reply included.`,
          );
        }
      });
      const samples: Sample[] = [];
      for (const [index, request] of requests.entries()) {
        const script = tokenizer.encode(replyTo(request));
        counts.promptTokens += request.tokens.length;
        counts.running++;
        const sample = await play(request, index, script, signal, onToken).finally(() => counts.running--);
        counts.sampledTokens += sample.tokens.length;
        samples.push(sample);
      }
      return samples;
    },
    async forward(batch, options = {}) {
      trainable("scoring for training");
      if (options.values && !valueHead) {
        throw new StatesetError("INVALID_OPTION", "forward() was asked for values, but there is no value head.", {
          hint: "Call addValueHead() first.",
        });
      }
      return forward(batch, options);
    },
    async backward() {
      trainable("a gradient");
    },
    async step() {
      trainable("an optimiser step");
      return { gradNorm: 0, applied: true, ...unchanged };
    },
    async zeroGradients() {
      trainable("clearing gradients");
    },
    async reference() {
      trainable("a reference");
      return {
        version: name,
        logprobs: async (batch) => forward(batch, {}).logprobs,
        async blend() {},
        save: (dir) => writeMark(dir, name),
        async close() {},
      };
    },
    async addValueHead() {
      trainable("a value head");
      valueHead = true;
    },
    async vector() {
      trainable("reading parameters");
      return new ArrayVector([]);
    },
    async moveTo(vector) {
      trainable("moving parameters");
      if (vector.length > 0)
        throw new StatesetError("INVALID_OPTION", `${name} has 0 parameters, the vector ${vector.length}.`);
      return unchanged;
    },
    async save(dir) {
      trainable("saving a model");
      await writeMark(dir, name);
    },
    async load(dir) {
      trainable("loading weights");
      await readMark(dir);
      return unchanged;
    },
    async snapshot(dir) {
      trainable("a snapshot");
      return writeMark(dir, name);
    },
    async restore(dir) {
      trainable("restoring");
      await readMark(dir);
      return unchanged;
    },
    plan: () => noMemory,
    async close() {
      closed = true;
    },
  };

  /** Says the script token by token, ending as a model would: at its end, at a stop text, at the limit, or when aborted. */
  async function play(
    { tokens: prompt, sampling }: SampleRequest,
    request: number,
    script: Int32Array,
    signal: AbortSignal | undefined,
    onToken: ((token: SampleToken) => void) | undefined,
  ): Promise<Sample> {
    const reply = createReplyText(tokenizer.createTextStream(), sampling.stop);
    const limit = Math.min(sampling.maxTokens, contextLength - prompt.length);
    const said: number[] = [];
    let finishReason: Sample["finishReason"] = "length";
    while (said.length < limit) {
      // Gives timers, aborts and other work a turn, as a real engine would.
      if (said.length % 64 === 0) await setImmediate();
      if (signal?.aborted) {
        finishReason = "aborted";
        break;
      }
      const token = script[said.length] ?? endOfTurn;
      said.push(token);
      const piece = reply.push(token);
      const ended = token === endOfTurn || sampling.stopTokens.includes(token) || reply.stopped;
      const last = ended || said.length === limit;
      onToken?.({ request, token, logprob, text: last ? piece + reply.finish() : piece });
      if (ended) {
        finishReason = "stop";
        break;
      }
    }
    reply.finish();
    return {
      tokens: Int32Array.from(said),
      logprobs: new Float32Array(said.length).fill(logprob),
      text: reply.text,
      finishReason,
      version: name,
      stub: true,
    };
  }
}

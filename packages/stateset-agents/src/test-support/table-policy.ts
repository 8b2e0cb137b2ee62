/**
 * A whole Policy in a few kilobytes of TypeScript, for tests of everything above the engine: the logits of the next token are
 * one row of a table, chosen by the token before it. Gradients are exact, sampling and scoring share their arithmetic.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { throwIfAborted } from "../abort.ts";
import { StatesetError } from "../error.ts";
import { ArrayVector, arrayOf } from "../policy/array-vector.ts";
import { noMemory } from "../policy/no-memory.ts";
import type {
  ModelInfo,
  Policy,
  Reference,
  Sample,
  SampleOptions,
  SampleRequest,
  StepOptions,
  StoredFile,
  TokenLogprob,
  Version,
} from "../policy/policy.ts";
import { createReplyText, createTextStream } from "../policy/tokenizer/index.ts";
import { changedVersion, loadedVersion } from "../policy/version.ts";
import { createRandom, seedOf } from "../random.ts";
import { adamW, differentiate, logSoftmax, type ScoredForward, score } from "./table-arithmetic.ts";
import { draw } from "./table-sampling.ts";
import { createTableTokenizer, endToken } from "./table-tokenizer.ts";

export interface TablePolicyOptions {
  words?: readonly string[];
  seed?: number;
  /** Standard spread of the initial logits. */
  spread?: number;
  contextLength?: number;
  /** Requests of sample() that resolve only after this many milliseconds: to stand for a slow engine. */
  sampleDelayMs?: number;
}

export interface TablePolicy extends Policy {
  /** Every parameter: the table row by row, then the value head. For tests that ask what moved. */
  readonly parameters: Float32Array;
  readonly gradients: Float64Array;
  /** How often each method was called. */
  readonly calls: { sample: number; forward: number; backward: number; step: number };
  idOf(token: string): number;
}

export const tableWords = "please thanks sorry refund order late help card broken yes no ok well really".split(" ");

export function createTablePolicy(options: TablePolicyOptions = {}): TablePolicy {
  const tokenizer = createTableTokenizer(options.words ?? tableWords);
  const size = tokenizer.vocabSize;
  const random = createRandom(seedOf(options.seed ?? 0, "table"));
  const end = tokenizer.idOf(endToken);
  const parameters = new Float32Array(size * size + size);
  for (let i = 0; i < size * size; i++) parameters[i] = (options.spread ?? 0.1) * (random.next() - 0.5) * 2;
  // Role tokens and <unknown> are never sampled: far below everything else.
  for (let row = 0; row < size; row++) for (let id = 1; id < 6; id++) parameters[row * size + id] = -30;
  const gradients = new Float64Array(parameters.length);
  const moments = { first: new Float64Array(parameters.length), second: new Float64Array(parameters.length), steps: 0 };
  const calls = { sample: 0, forward: 0, backward: 0, step: 0 };
  const stats = { promptTokens: 0, sampledTokens: 0 };
  const digest = digestOf(parameters);
  let version = loadedVersion(digest);
  let valueHead = false;
  let closed = false;
  const trainable = () => (valueHead ? parameters.length : size * size);
  const live = () => {
    if (closed) throw new StatesetError("POLICY_CLOSED", "This policy was closed.");
  };
  const model = (): ModelInfo => ({
    name: "table",
    digest,
    architecture: "table",
    parameters: parameters.length,
    trainableParameters: trainable(),
    hiddenSize: size,
    layers: 1,
    vocabSize: size,
    contextLength: options.contextLength ?? 512,
    endTokens: [end],
    valueHead,
    stub: false,
  });
  const opened = Float32Array.from(parameters);

  return {
    get model() {
      return model();
    },
    tokenizer,
    parameters,
    gradients,
    calls,
    idOf: tokenizer.idOf,
    capabilities: {
      exact: true,
      seeded: true,
      entropy: true,
      values: true,
      hidden: true,
      vectors: true,
      promptLogprobs: true,
      embed: true,
    },
    get version() {
      return version;
    },
    stats: () => ({ running: 0, waiting: 0, slots: 1, cacheBytes: 0, cachedTokens: 0, versions: 1, ...stats }),

    async sample(requests, sampleOptions = {}) {
      live();
      calls.sample++;
      if (options.sampleDelayMs) await new Promise((resolve) => setTimeout(resolve, options.sampleDelayMs));
      return requests.map((request, index) => sampleOne(request, index, sampleOptions));
    },

    async embed(texts, { signal } = {}) {
      live();
      // As an engine would: what comes in the meantime is heard.
      await new Promise(setImmediate);
      throwIfAborted(signal, "while embedding");
      return texts.map((tokens) => {
        if (tokens.length === 0) throw new StatesetError("INVALID_OPTION", "The text is empty.");
        if (tokens.length > model().contextLength)
          throw new StatesetError("CONTEXT_OVERFLOW", `The text has ${tokens.length} tokens.`);
        const mean = new Float64Array(size);
        for (const token of tokens) mean[token]! += 1;
        return Float32Array.from(mean, (count) => count / tokens.length);
      });
    },

    async forward(batch, forwardOptions = {}) {
      live();
      calls.forward++;
      return score(parameters, size, batch, forwardOptions);
    },

    async backward(pass, derivatives) {
      live();
      calls.backward++;
      const scored = pass as ScoredForward;
      if (scored.released) throw new StatesetError("INVALID_OPTION", "backward() was called on a released forward.");
      scored.release();
      differentiate(scored, derivatives, parameters, gradients, size);
    },

    async step({ scope = "all", ...settings }: StepOptions) {
      live();
      calls.step++;
      const from = scope === "value" ? size * size : 0;
      const to = scope === "policy" || !valueHead ? size * size : parameters.length;
      let squares = 0;
      for (let i = from; i < to; i++) squares += gradients[i]! ** 2;
      const gradNorm = Math.sqrt(squares);
      const applied = Number.isFinite(gradNorm);
      if (applied) {
        adamW(parameters, gradients, moments, from, to, size * size, gradNorm, settings);
        version = changedVersion(version, "step", scope, settings, gradNorm);
      }
      gradients.fill(0);
      return { gradNorm, applied, version, drained: false };
    },

    async zeroGradients() {
      gradients.fill(0);
    },

    async reference(of = "present") {
      live();
      if (typeof of === "object") return referenceOf(...readTable(of.from));
      return of === "base" ? referenceOf(opened, loadedVersion(digest)) : referenceOf(parameters, version);
    },

    async addValueHead() {
      valueHead = true;
    },

    async vector(of) {
      return new ArrayVector((of === "parameters" ? parameters : gradients).subarray(0, trainable()));
    },

    async moveTo(vector) {
      parameters.set(arrayOf(vector));
      version = changedVersion(version, "at", digestOf(parameters));
      return { version, drained: false };
    },

    async save(dir) {
      writeTable(dir, parameters, version);
    },

    async load(dir) {
      live();
      const [table] = readTable(dir);
      parameters.set(table);
      for (const kept of [moments.first, moments.second, gradients]) kept.fill(0);
      moments.steps = 0;
      version = loadedVersion(digestOf(parameters));
      return { version, drained: false };
    },

    async snapshot(dir) {
      return {
        files: [
          ...writeTable(dir, parameters, version),
          stored(dir, "first.bin", bytesOf(moments.first)),
          stored(dir, "second.bin", bytesOf(moments.second)),
          stored(dir, "state.json", JSON.stringify({ steps: moments.steps, valueHead })),
        ],
      };
    },

    async restore(dir) {
      live();
      const bytes = (name: string) => new Uint8Array(readFileSync(join(dir, name))).buffer;
      const [table, name] = readTable(dir);
      parameters.set(table);
      moments.first.set(new Float64Array(bytes("first.bin")));
      moments.second.set(new Float64Array(bytes("second.bin")));
      const state = JSON.parse(readFileSync(join(dir, "state.json"), "utf8")) as { steps: number; valueHead: boolean };
      moments.steps = state.steps;
      valueHead = state.valueHead;
      version = name;
      return { version, drained: false };
    },

    plan: () => noMemory,

    async close() {
      closed = true;
    },
  };

  function sampleOne(
    { tokens, sampling, seed, samplerLogprobs, topLogprobs = 0, promptLogprobs }: SampleRequest,
    request: number,
    { signal, onToken }: SampleOptions,
  ): Sample {
    if (tokens.length === 0) throw new StatesetError("INVALID_OPTION", "The prompt is empty.");
    if (sampling.maxTokens === 0 && promptLogprobs === undefined)
      throw new StatesetError("INVALID_OPTION", "Nothing is asked for.");
    if (tokens.length + Math.min(1, sampling.maxTokens) > model().contextLength)
      throw new StatesetError("CONTEXT_OVERFLOW", `The prompt has ${tokens.length} tokens.`);
    stats.promptTokens += tokens.length;
    const random = createRandom(seedOf(seed, "sample"));
    const ends = new Set([end, ...sampling.stopTokens]);
    const reply = createReplyText(
      createTextStream((ids) => tokenizer.decode(ids), new Set([end])),
      sampling.stop,
    );
    const said: number[] = [];
    const logprobs: number[] = [];
    const own: number[] = [];
    const top: { token: number; logprob: number }[][] = [];
    let finishReason: Sample["finishReason"] = "length";
    const room = Math.min(sampling.maxTokens, model().contextLength - tokens.length);
    while (said.length < room) {
      if (signal?.aborted) {
        finishReason = "aborted";
        break;
      }
      const row = logSoftmax(parameters, said.at(-1) ?? tokens.at(-1)!, size, sampling.temperature || 1);
      const { token, samplerLogprob } = draw(row, sampling, { uniform: random.next(), prompt: tokens, said, ends });
      said.push(token);
      logprobs.push(Math.fround(row[token]!));
      own.push(samplerLogprob);
      top.push(likeliest(row, topLogprobs));
      const piece = reply.push(token);
      const ended = ends.has(token) || reply.stopped;
      const text = ended || said.length === room ? piece + reply.finish() : piece;
      onToken?.({ request, token, logprob: logprobs.at(-1)!, text });
      if (ended) {
        finishReason = "stop";
        break;
      }
    }
    reply.finish();
    stats.sampledTokens += said.length;
    return {
      tokens: Int32Array.from(said),
      logprobs: Float32Array.from(logprobs),
      text: reply.text,
      finishReason,
      version,
      ...(samplerLogprobs && { samplerLogprobs: Float32Array.from(own) }),
      ...(topLogprobs > 0 && { topLogprobs: top }),
      ...(promptLogprobs !== undefined && readPrompt(tokens, sampling.temperature || 1, promptLogprobs)),
    };
  }

  function readPrompt(tokens: Int32Array, temperature: number, count: number) {
    const rows = Array.from(tokens.subarray(0, -1), (token) => logSoftmax(parameters, token, size, temperature));
    return {
      promptLogprobs: Float32Array.from(tokens, (token, i) => (i > 0 ? rows[i - 1]![token]! : 0)),
      ...(count > 0 && { promptTopLogprobs: [[], ...rows.map((row) => likeliest(row, count))] }),
    };
  }

  function referenceOf(table: Float32Array, name: Version): Reference {
    const frozen = Float32Array.from(table);
    let [own, gone] = [name, false];
    return {
      get version() {
        return own;
      },
      async logprobs(batch, { temperature = 1 } = {}) {
        if (gone) throw new StatesetError("POLICY_CLOSED", "The reference was used after close().");
        return score(frozen, size, batch, { temperature }).logprobs;
      },
      async blend(decay) {
        for (let i = 0; i < frozen.length; i++) frozen[i] = decay * frozen[i]! + (1 - decay) * parameters[i]!;
        own = changedVersion(own, "blend", decay, version);
      },
      save: async (dir) => ({ files: writeTable(dir, frozen, own) }),
      async close() {
        gone = true;
      },
    };
  }
}

function likeliest(row: Float64Array, count: number): TokenLogprob[] {
  const best = [...row.keys()].sort((a, b) => row[b]! - row[a]! || a - b).slice(0, count);
  return best.map((token) => ({ token, logprob: Math.fround(row[token]!) }));
}

function digestOf(numbers: Float32Array): string {
  return createHash("sha256").update(bytesOf(numbers)).digest("hex");
}

function bytesOf({ buffer, byteOffset, byteLength }: Float32Array | Float64Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

function writeTable(dir: string, table: Float32Array, version: Version): StoredFile[] {
  mkdirSync(dir, { recursive: true });
  return [stored(dir, "parameters.bin", bytesOf(table)), stored(dir, "version", version)];
}

/** Not put on the disk for good, as an engine's files are: tests write thousands. */
function stored(dir: string, file: string, content: string | Uint8Array): StoredFile {
  writeFileSync(join(dir, file), content);
  return { file, bytes: content.length, sha256: createHash("sha256").update(content).digest("hex") };
}

function readTable(dir: string): [Float32Array, Version] {
  if (!existsSync(join(dir, "parameters.bin"))) throw new StatesetError("MODEL_NOT_FOUND", `${dir} holds no table.`);
  const bytes = new Uint8Array(readFileSync(join(dir, "parameters.bin")));
  return [new Float32Array(bytes.buffer), readFileSync(join(dir, "version"), "utf8")];
}

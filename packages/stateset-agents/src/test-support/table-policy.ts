/**
 * A whole Policy in a few kilobytes of TypeScript, for tests of everything above the engine: the logits of the next token are
 * one row of a table, chosen by the token before it. Gradients are exact, sampling and scoring share their arithmetic.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { StatesetError } from "../error.ts";
import type {
  Derivatives,
  Forward,
  ForwardOptions,
  ModelInfo,
  Policy,
  Reference,
  Sample,
  SampleRequest,
  StepOptions,
  TokenTree,
} from "../policy/policy.ts";
import { createRandom, seedOf } from "../random.ts";
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
  let frozen: Float32Array | undefined;
  let valueHead = false;
  let closed = false;
  const trainable = () => (valueHead ? parameters.length : size * size);
  const live = () => {
    if (closed) throw new StatesetError("POLICY_CLOSED", "This policy was closed.");
  };

  const model = (): ModelInfo => ({
    name: "table",
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

  return {
    get model() {
      return model();
    },
    tokenizer,
    parameters,
    gradients,
    calls,
    idOf: tokenizer.idOf,

    async sample(requests, { signal, onToken } = {}) {
      live();
      calls.sample++;
      if (options.sampleDelayMs) await new Promise((resolve) => setTimeout(resolve, options.sampleDelayMs));
      return requests.map((request, index) => sampleOne(request, index));
      function sampleOne({ tokens, sampling, seed }: SampleRequest, request: number): Sample {
        if (sampling.topP !== 1 || sampling.topK !== 0)
          throw new StatesetError("INVALID_OPTION", "The table policy knows no topP or topK.");
        const draw = createRandom(seedOf(seed, "sample"));
        const sampled: number[] = [];
        const logprobs: number[] = [];
        let previous = tokens[tokens.length - 1]!;
        let finishReason: Sample["finishReason"] = "length";
        const room = Math.min(sampling.maxTokens, model().contextLength - tokens.length);
        while (sampled.length < room) {
          if (signal?.aborted) {
            finishReason = "aborted";
            break;
          }
          const row = logSoftmax(parameters, previous, size, sampling.temperature || 1);
          previous = sampling.temperature === 0 ? argmax(row) : choose(row, draw.next());
          sampled.push(previous);
          logprobs.push(Math.fround(row[previous]!));
          onToken?.({
            request,
            token: previous,
            logprob: logprobs.at(-1)!,
            text: previous === end ? "" : `${tokenizer.decode([previous])} `,
          });
          if (previous === end || sampling.stopTokens.includes(previous)) {
            finishReason = "stop";
            break;
          }
        }
        return {
          tokens: Int32Array.from(sampled),
          logprobs: Float32Array.from(logprobs),
          text: tokenizer.decode(sampled),
          finishReason,
        };
      }
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
      if (scored.released) throw new StatesetError("ENGINE_FAILED", "backward() was called on a released forward.");
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
      if (applied) adamW(parameters, gradients, moments, from, to, size * size, gradNorm, settings);
      gradients.fill(0);
      return { gradNorm, applied };
    },

    async zeroGradients() {
      gradients.fill(0);
    },

    async reference({ renew = false } = {}): Promise<Reference> {
      if (!frozen || renew) frozen = Float32Array.from(parameters);
      return {
        logprobs: async (batch, { temperature = 1 } = {}) => score(frozen!, size, batch, { temperature }).logprobs,
      };
    },

    async addValueHead() {
      valueHead = true;
    },

    async readVector(what) {
      return Float32Array.from((what === "parameters" ? parameters : gradients).subarray(0, trainable()));
    },

    async addVector(delta) {
      for (let i = 0; i < trainable(); i++) parameters[i]! += delta[i]!;
    },

    async save(dir) {
      mkdirSync(dir, { recursive: true });
      writeFileSync(join(dir, "table.bin"), Buffer.from(parameters.buffer));
    },

    async snapshot(dir) {
      mkdirSync(dir, { recursive: true });
      writeFileSync(join(dir, "parameters.bin"), Buffer.from(parameters.buffer));
      writeFileSync(join(dir, "first.bin"), Buffer.from(moments.first.buffer));
      writeFileSync(join(dir, "second.bin"), Buffer.from(moments.second.buffer));
      if (frozen) writeFileSync(join(dir, "reference.bin"), Buffer.from(frozen.buffer));
      writeFileSync(join(dir, "state.json"), JSON.stringify({ steps: moments.steps, valueHead }));
    },

    async restore(dir) {
      const bytes = (name: string) => new Uint8Array(readFileSync(join(dir, name))).buffer;
      parameters.set(new Float32Array(bytes("parameters.bin")));
      moments.first.set(new Float64Array(bytes("first.bin")));
      moments.second.set(new Float64Array(bytes("second.bin")));
      if (existsSync(join(dir, "reference.bin"))) frozen = new Float32Array(bytes("reference.bin"));
      const state = JSON.parse(readFileSync(join(dir, "state.json"), "utf8")) as { steps: number; valueHead: boolean };
      moments.steps = state.steps;
      valueHead = state.valueHead;
    },

    async close() {
      closed = true;
    },
  };
}

interface ScoredForward extends Forward {
  batch: TokenTree;
  previous: Int32Array;
  temperature: number;
  released: boolean;
}

function score(parameters: Float32Array, size: number, batch: TokenTree, options: ForwardOptions): ScoredForward {
  const count = batch.tokens.length;
  const previous = previousTokens(batch);
  const temperature = options.temperature ?? 1;
  const logprobs = new Float32Array(count);
  const entropy = options.entropy ? new Float32Array(count) : undefined;
  const values = options.values ? new Float32Array(count) : undefined;
  const hidden = options.hidden ? new Float32Array(count * size) : undefined;
  for (let i = 0; i < count; i++) {
    const token = batch.tokens[i]!;
    if (values) values[i] = parameters[size * size + token]!;
    if (hidden) hidden[i * size + token] = 1;
    if (!batch.wanted[i] || previous[i]! < 0) continue;
    const row = logSoftmax(parameters, previous[i]!, size, temperature);
    logprobs[i] = row[token]!;
    if (entropy) entropy[i] = -row.reduce((sum, logp) => sum + Math.exp(logp) * logp, 0);
  }
  const pass: ScoredForward = {
    logprobs,
    ...(entropy && { entropy }),
    ...(values && { values }),
    ...(hidden && { hidden }),
    batch,
    previous,
    temperature,
    released: false,
    release() {
      pass.released = true;
    },
  };
  return pass;
}

function differentiate(
  { batch, previous, temperature }: ScoredForward,
  derivatives: Derivatives,
  parameters: Float32Array,
  gradients: Float64Array,
  size: number,
): void {
  for (let i = 0; i < batch.tokens.length; i++) {
    const token = batch.tokens[i]!;
    const dValue = derivatives.values?.[i] ?? 0;
    if (dValue !== 0) gradients[size * size + token]! += dValue;
    const dLogprob = derivatives.logprobs?.[i] ?? 0;
    const dEntropy = derivatives.entropy?.[i] ?? 0;
    if ((dLogprob === 0 && dEntropy === 0) || !batch.wanted[i] || previous[i]! < 0) continue;
    const row = logSoftmax(parameters, previous[i]!, size, temperature);
    const entropy = -row.reduce((sum, logp) => sum + Math.exp(logp) * logp, 0);
    for (let j = 0; j < size; j++) {
      const p = Math.exp(row[j]!);
      const d = dLogprob * ((j === token ? 1 : 0) - p) - dEntropy * p * (row[j]! + entropy);
      gradients[previous[i]! * size + j]! += d / temperature;
    }
  }
}

/** The token before each one on its path; -1 at the start of a root. */
function previousTokens(batch: TokenTree): Int32Array {
  const previous = new Int32Array(batch.tokens.length).fill(-1);
  for (let node = 0; node < batch.nodeParent.length; node++) {
    const start = batch.nodeStart[node]!;
    const stop = batch.nodeStart[node + 1]!;
    let last = -1;
    for (let up = batch.nodeParent[node]!; up >= 0; up = batch.nodeParent[up]!) {
      if (batch.nodeStart[up + 1]! > batch.nodeStart[up]!) {
        last = batch.tokens[batch.nodeStart[up + 1]! - 1]!;
        break;
      }
    }
    for (let i = start; i < stop; i++) previous[i] = i === start ? last : batch.tokens[i - 1]!;
  }
  return previous;
}

function logSoftmax(parameters: Float32Array, row: number, size: number, temperature: number): Float64Array {
  const logits = Float64Array.from(parameters.subarray(row * size, (row + 1) * size), (x) => x / temperature);
  const max = logits.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const log = max + Math.log(logits.reduce((sum, x) => sum + Math.exp(x - max), 0));
  return logits.map((x) => x - log);
}

function choose(row: Float64Array, uniform: number): number {
  let sum = 0;
  for (let id = 0; id < row.length; id++) {
    sum += Math.exp(row[id]!);
    if (uniform < sum) return id;
  }
  return argmax(row);
}

function argmax(row: Float64Array): number {
  return row.reduce((best, x, id) => (x > row[best]! ? id : best), 0);
}

/** AdamW (Loshchilov & Hutter 2019) with clipping by global norm. */
function adamW(
  parameters: Float32Array,
  gradients: Float64Array,
  moments: { first: Float64Array; second: Float64Array; steps: number },
  from: number,
  to: number,
  valueStart: number,
  norm: number,
  options: Omit<StepOptions, "scope">,
): void {
  const { learningRate, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0, clipNorm } = options;
  const scale = clipNorm && norm > clipNorm ? clipNorm / norm : 1;
  moments.steps++;
  for (let i = from; i < to; i++) {
    const rate = i >= valueStart ? (options.valueLearningRate ?? learningRate) : learningRate;
    const g = gradients[i]! * scale;
    const first = beta1 * moments.first[i]! + (1 - beta1) * g;
    const second = beta2 * moments.second[i]! + (1 - beta2) * g * g;
    moments.first[i] = first;
    moments.second[i] = second;
    const update = first / (1 - beta1 ** moments.steps) / (Math.sqrt(second / (1 - beta2 ** moments.steps)) + epsilon);
    parameters[i]! -= rate * (update + weightDecay * parameters[i]!);
  }
}

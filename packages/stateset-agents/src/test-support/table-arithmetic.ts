/** Scores, gradients and steps of the table policy: the logits of the next token are one row of a table, chosen by the token before it. */
import type { Derivatives, Forward, ForwardOptions, StepOptions, TokenTree } from "../policy/policy.ts";

export interface ScoredForward extends Forward {
  batch: TokenTree;
  previous: Int32Array;
  temperature: number;
  released: boolean;
}

export function score(
  parameters: Float32Array,
  size: number,
  batch: TokenTree,
  options: ForwardOptions,
): ScoredForward {
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

export function differentiate(
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

export function logSoftmax(parameters: Float32Array, row: number, size: number, temperature: number): Float64Array {
  const logits = Float64Array.from(parameters.subarray(row * size, (row + 1) * size), (x) => x / temperature);
  const max = logits.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  const log = max + Math.log(logits.reduce((sum, x) => sum + Math.exp(x - max), 0));
  return logits.map((x) => x - log);
}

/** AdamW (Loshchilov & Hutter 2019) with clipping by global norm. */
export function adamW(
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

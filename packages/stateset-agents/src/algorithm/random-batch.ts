/** Batches to try a loss on: several groups, ragged lengths, several turns, ratios on both sides of any clip, all optional inputs present. */
import { createRandom, type Random } from "../random.ts";
import type { BatchCounts, LossSequence, Sequence } from "./algorithm.ts";

export interface RandomBatchOptions {
  seed?: number;
  groups?: number;
  groupSize?: number;
  /** Tokens of the longest sequence. */
  maxTokens?: number;
  /** Standard deviation of logp − old. */
  drift?: number;
}

/** What a policy sampled; advantages() can be computed on it. */
export function randomSequences(options: RandomBatchOptions = {}): Sequence[] {
  const { seed = 0, groups = 3, groupSize = 4, maxTokens = 12 } = options;
  const random = createRandom(seed);
  return Array.from({ length: groups * groupSize }, (_, i) => {
    const length = 1 + random.below(maxTokens);
    const old = logprobs(random, length);
    let turn = 1;
    return {
      group: Math.floor(i / groupSize),
      old,
      ref: old.map((value) => Math.min(0, value + 0.3 * normal(random))),
      turn: Int32Array.from(old, (_, t) => {
        if (t > 0 && random.next() < 0.25) turn += 2;
        return turn;
      }),
      oldValues: old.map(() => normal(random)),
      reward: random.next(),
      breakdown: { correct: random.below(2), style: 10 * random.next() },
      turnRewards: { 1: 0.5 * normal(random) },
      states: { 1: "start", 3: i % 2 ? "a" : "b", 5: "a" },
      truncated: length === maxTokens,
    };
  });
}

/** The same as a loss sees it, with random advantages (a fifth of them zero). */
export function randomLossSequences(options: RandomBatchOptions = {}): LossSequence[] {
  return withPolicy(
    randomSequences(options).map((sequence) => {
      const random = createRandom(sequence.old.length);
      return {
        ...sequence,
        advantages: sequence.old.map(() => (random.next() < 0.2 ? 0 : normal(random))),
        returns: sequence.old.map(() => normal(random)),
      };
    }),
    options,
  );
}

/** Adds what the policy being trained says: log-probs that drifted from the old ones, entropies, values. */
export function withPolicy<S extends Sequence>(
  sequences: readonly S[],
  { seed = 0, drift = 0.4 }: RandomBatchOptions = {},
): (S & Pick<LossSequence, "logprobs" | "entropy" | "values">)[] {
  const random = createRandom(seed + 1);
  return sequences.map((sequence) => ({
    ...sequence,
    logprobs: sequence.old.map((value) => Math.min(-1e-3, value + drift * normal(random))),
    entropy: sequence.old.map(() => 3 * random.next()),
    values: sequence.old.map((_, t) => (sequence.oldValues?.[t] ?? 0) + 0.3 * normal(random)),
  }));
}

export function countsOf(sequences: readonly Sequence[], maxTokens?: number): BatchCounts {
  return {
    sequences: sequences.length,
    tokens: sequences.reduce((sum, { old }) => sum + old.length, 0),
    groups: new Set(sequences.map(({ group }) => group)).size,
    maxTokens: maxTokens ?? Math.max(0, ...sequences.map(({ old }) => old.length)),
  };
}

function logprobs(random: Random, length: number): Float32Array {
  return Float32Array.from({ length }, () => -4 * random.next());
}

/** Box–Muller. */
function normal(random: Random): number {
  return Math.sqrt(-2 * Math.log(1 - random.next())) * Math.cos(2 * Math.PI * random.next());
}

/**
 * The contract of an algorithm: two pure functions over per-token numbers. No engine, no model, no I/O.
 *
 * What a training loop has to respect:
 * - hand the whole of what advantages() returned to the loss: `{ ...sequence, ...advantages[i], logprobs, … }` (`context` is part of it);
 * - skip sequences whose advantages are all zero only when `usesZeroAdvantages` is not set;
 * - add metrics with `mergeMetrics` and read them with `meanMetrics` (metrics.ts), which know maxima and explained variance;
 * - where sampler and trainer differ, put the trainer's log-probs in `old` and the sampler's in `sampled`.
 *
 * A `Sequence` is one trajectory reduced to the tokens the policy sampled (m = 1), in order, over all its turns.
 * So every array below has length |y_i|, and masks are never needed.
 */
export interface Sequence {
  /** Index of its group in the optimiser batch. */
  group: number;
  /** Log-probs by the policy before the update: recorded when the tokens were sampled, or scored where that cannot be relied on. */
  old: Float32Array;
  /**
   * The log-probs of what was really drawn from, only where that was not the policy as the trainer scores it (another engine, a stale
   * policy, top-p): `old` is the trainer's.
   */
  sampled?: Float32Array;
  /** Log-probs of the frozen reference; present when the algorithm needs it. */
  ref?: Float32Array;
  /** Turn number of each token: tokens of one reply share it. */
  turn: Int32Array;
  /** V(state before the token) under the policy that sampled; present when the algorithm needs values. */
  oldValues?: Float32Array;
  /** V(state after the last token) under that policy: only where a limit ended the conversation, and the algorithm needs values. */
  endValue?: number;
  /** Entropy at each token under the policy that sampled; present when only the most uncertain tokens learn (`entropyQuantile`). */
  oldEntropy?: Float32Array;
  /** The total of the conversation: what every algorithm learns from, however it places it. */
  reward: number;
  /** `reward` before anything was done to it (`rewardShaping`, shapeReward()), where something may have been. */
  givenReward?: number;
  /** Named parts of the reward, for multi-reward advantages. */
  breakdown: Record<string, number>;
  /** Parts that failed for this conversation. One that the breakdown lacks was skipped, and is not a misspelt one. */
  failedParts?: readonly string[];
  /** Rewards given on single turns, by turn number. */
  turnRewards: Record<number, number>;
  /** True when they are shares of `reward`, as in everything the library samples: what is left of it falls on the end. */
  turnsInReward?: boolean;
  /** What a reply answers, by its turn number: replies of a group with the same text answer the same turn in the same state. Only where the environment tells states. */
  states?: Readonly<Record<number, string>>;
  /** True when the reply was cut at the token limit. */
  truncated: boolean;
  /** Set when a limit ended it and not the environment: tokens of the last reply, replies, or the context. */
  endedByLimit?: true;
  /** True when nothing is learnt from it (`maskTruncated`, `maskFailedCalls`). Others are compared with it all the same; counts of tokens that learn leave it out. */
  masked?: boolean;
  /** What shapeReward() added to `reward`, for advantages that are not made of it. */
  shaping?: number;
  /** Set when the environment failed at a reply: `reward` is what that counts, and the breakdown is empty. */
  failed?: boolean;
}

/** What advantages() adds to a sequence. */
export interface Advantages {
  /** [tokens] */
  advantages: Float32Array;
  /** [tokens] value targets; only with values. */
  returns?: Float32Array;
  /** Numbers the loss needs of the whole batch or group (GEPO's denominator), so that micro-batches may split groups. */
  context?: Readonly<Record<string, number>>;
}

/** A sequence as the loss sees it. */
export interface LossSequence extends Sequence, Advantages {
  /** Log-probs under the policy being trained. */
  logprobs: Float32Array;
  /** Where stop-gradient factors are evaluated; `logprobs` when absent. Only checkGradient() sets it. */
  frozen?: Float32Array;
  entropy?: Float32Array;
  /** V(state before the token) under the policy being trained. */
  values?: Float32Array;
}

/** Counts over the whole optimiser batch, so that micro-batches normalise by the same numbers. */
export interface BatchCounts {
  sequences: number;
  tokens: number;
  groups: number;
  /** Sampled tokens a conversation may have, by the settings: the limit of a reply × the limit of replies (Dr. GRPO's L_max). */
  maxTokens: number;
}

/** Sums over tokens or sequences; the loop adds them over micro-batches (mergeMetrics) and divides (meanMetrics). */
export type MetricSums = Record<string, MetricSum>;

export interface MetricSum {
  sum: number;
  count: number;
  /** Set on maxima: these are compared, not added. */
  max?: number;
}

export interface LossResult {
  /** This micro-batch's share of the loss: shares add up to the loss of the optimiser batch. */
  loss: number;
  /** d loss / d logprobs, one array per sequence. */
  dLogprobs: Float32Array[];
  dEntropy?: Float32Array[];
  dValues?: Float32Array[];
  metrics: MetricSums;
}

export interface Needs {
  reference?: boolean;
  entropy?: boolean;
  values?: boolean;
  /** The loss divides by BatchCounts.maxTokens. */
  maxTokens?: boolean;
}

/** An algorithm with its options already validated and bound. */
export interface Algorithm {
  readonly name: string;
  /** The resolved options, for the run's config and for the user's eyes. */
  readonly options: Readonly<Record<string, unknown>>;
  readonly needs: Needs;
  /** Set when a sequence with all-zero advantages still moves something (KL, entropy, value or likelihood terms). */
  readonly usesZeroAdvantages?: boolean;
  /** One entry per sequence, in order. A sequence whose advantages are all zero is skipped by the loop, unless the flag above is set. */
  advantages(sequences: readonly Sequence[]): Advantages[];
  loss(micro: readonly LossSequence[], counts: BatchCounts): LossResult;
  /** Keeps a group in the batch or refuses it (DAPO's dynamic sampling), before its rewards are shaped; others are sampled in its place. */
  keepGroup?(group: readonly Sequence[]): boolean;
  /** Set when conversations are only compared with others of their group: a conversation alone would teach nothing. */
  readonly comparesGroups?: boolean;
  /** Rounds of sampling at most when groups are dropped. */
  readonly maxSamplingRounds?: number;
  /** Adjusts the reward of a sequence before advantages (overlong shaping). `replyTokens` is the limit of one reply. */
  shapeReward?(sequence: Sequence, replyTokens: number): number;
  /** Steps in which only the value head learns, before the policy moves (VAPO): so many, or as many as suit a run of so many steps. */
  readonly valueWarmupSteps?: number | ((steps: number) => number);
  /** Set when the loss has no importance ratio, so that only the first pass over a rollout is on policy. */
  readonly singlePass?: boolean;
  /** After an optimiser batch: lets adaptive coefficients move. State must be plain data, kept in checkpoints. */
  afterUpdate?(metrics: Readonly<Record<string, number>>): void;
  state?(): Record<string, number>;
  restore?(state: Readonly<Record<string, number>>): void;
  /** Replaces gradient steps on `loss` (TRPO). */
  readonly trustRegion?: TrustRegion;
}

export interface TrustRegion {
  /** Mean KL(old‖new) with its derivatives, for Fisher-vector products and the line search. */
  kl(micro: readonly LossSequence[], counts: BatchCounts): LossResult;
  maxKl: number;
  cgSteps: number;
  damping: number;
  backtracks: number;
  backtrackRatio: number;
}

export type LossFunction = (micro: readonly LossSequence[], counts: BatchCounts) => LossResult;
export type AdvantageFunction = (sequences: readonly Sequence[]) => Advantages[];

/** What the figures are made of; without a model, so that tests try it. */

/** One training by one side, until the reward was reached or the steps ran out. */
export interface Training {
  /** Mean reward of each step. */
  rewards: number[];
  /** From the start of the first step to the end of the last: processor seconds of all threads, the reward included, and seconds by the clock. */
  cpuSeconds: number;
  seconds: number;
  /** Of the whole process: imports and loading included. */
  totalCpuSeconds: number;
  /** By the clock, until the training could begin. */
  setupSeconds: number;
  /** Sampled tokens a reply. */
  meanTokens: number;
  /** Ours: the share of the time that sampling took, rewards included; the rest is learning. */
  samplingShare?: number;
  /** Ours: the fewest multiply-adds that f32 arithmetic without reuse takes, see leastWork(). */
  multiplyAdds?: number;
  /** TRL: processor seconds of `cpuSeconds` that the reward took, in the process that computes it. */
  rewardCpuSeconds?: number;
}

/** How TRL is run. */
export interface PeerSetting {
  threads: number;
  dtype: "float32" | "bfloat16";
  /** Conversations in one forward and backward pass; the gradient is that of all of them. */
  batch: number;
}

/** The step (counted from 1) that ends the first `window` consecutive steps whose mean reaches the target; undefined where none does. */
export function reachedAt(rewards: readonly number[], target: number, window: number): number | undefined {
  for (let end = window; end <= rewards.length; end++) {
    const mean = rewards.slice(end - window, end).reduce((sum, reward) => sum + reward, 0) / window;
    if (mean >= target) return end;
  }
  return undefined;
}

/** The middle; of an even number the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length / 2;
  return sorted.length % 2 === 1 ? sorted[Math.floor(half)]! : (sorted[half - 1]! + sorted[half]!) / 2;
}

export interface Side {
  threads: number;
  setting?: PeerSetting;
  /** Ours, where it is not f32. */
  gradients?: "bf16";
  /** By seed, in order. */
  trainings: Training[];
}

export interface Medians {
  steps: number;
  cpuSeconds: number;
  seconds: number;
  cpuSecondsAStep: number;
  totalCpuSeconds: number;
}

export function mediansOf(trainings: readonly Training[]): Medians {
  const middle = (of: (training: Training) => number) => median(trainings.map(of));
  return {
    steps: middle(({ rewards }) => rewards.length),
    cpuSeconds: middle(({ cpuSeconds }) => cpuSeconds),
    seconds: middle(({ seconds }) => seconds),
    cpuSecondsAStep: middle(({ cpuSeconds, rewards }) => cpuSeconds / rewards.length),
    totalCpuSeconds: middle(({ totalCpuSeconds }) => totalCpuSeconds),
  };
}

/** TRL's median over ours, above 1 where ours needs less. Of either side the best over its rows, for each figure by itself. */
export type Ratios = Medians;

export function ratiosOf(ours: readonly Side[], peers: readonly Side[]): Ratios {
  const best = (sides: readonly Side[], key: keyof Medians) =>
    Math.min(...sides.map(({ trainings }) => mediansOf(trainings)[key]));
  const ratio = (key: keyof Medians) => best(peers, key) / best(ours, key);
  return {
    steps: ratio("steps"),
    cpuSeconds: ratio("cpuSeconds"),
    seconds: ratio("seconds"),
    cpuSecondsAStep: ratio("cpuSecondsAStep"),
    totalCpuSeconds: ratio("totalCpuSeconds"),
  };
}

/** Weights that a token is multiplied with: in every layer, and in the output layer where its successor is wanted. */
export interface ModelWork {
  layers: number;
  output: number;
}

/** Of one group: the tokens of the prompt, and of all its replies. */
export interface GroupTokens {
  prompt: number;
  replies: number;
}

/**
 * Passes over a group's tokens, each token once: sampling, the reward's fluency check by the frozen model, and learning's forward and
 * backward, the latter worth two.
 */
const passes = { sampling: 1, reward: 1, forward: 1, backward: 2 };

/** Multiply-adds of the products with weights in one step; attention, norms, the optimiser and everything else come on top. */
export function leastWork(groups: readonly GroupTokens[], { layers, output }: ModelWork): number {
  const once = groups.reduce((sum, { prompt, replies }) => sum + (prompt + replies) * layers + replies * output, 0);
  return Object.values(passes).reduce((a, b) => a + b, 0) * once;
}

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

/** TRL's median over ours, above 1 where ours needs less; TRL's is the best over its settings, for each figure by itself. */
export type Ratios = Medians;

export function ratiosOf(ours: Side, peers: readonly Side[]): Ratios {
  const own = mediansOf(ours.trainings);
  const theirs = peers.map(({ trainings }) => mediansOf(trainings));
  const ratio = (key: keyof Medians) => Math.min(...theirs.map((one) => one[key])) / own[key];
  return {
    steps: ratio("steps"),
    cpuSeconds: ratio("cpuSeconds"),
    seconds: ratio("seconds"),
    cpuSecondsAStep: ratio("cpuSecondsAStep"),
    totalCpuSeconds: ratio("totalCpuSeconds"),
  };
}

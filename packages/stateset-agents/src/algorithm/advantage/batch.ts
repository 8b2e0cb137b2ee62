import { StatesetError } from "../../error.ts";
import type { Advantages, Sequence } from "../algorithm.ts";
import { sampledKl } from "../kl.ts";

/** The members of each group, as indices into the batch. */
export function membersByGroup(sequences: readonly Sequence[]): Map<number, number[]> {
  const groups = new Map<number, number[]>();
  for (const [index, { group }] of sequences.entries()) {
    const members = groups.get(group);
    if (members) members.push(index);
    else groups.set(group, [index]);
  }
  return groups;
}

export function mean(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]!;
  return sum / values.length;
}

/** One after the other. */
export function joined(arrays: readonly ArrayLike<number>[]): Float64Array {
  const all = new Float64Array(arrays.reduce((sum, own) => sum + own.length, 0));
  let offset = 0;
  for (const own of arrays) {
    all.set(own, offset);
    offset += own.length;
  }
  return all;
}

/** Unbiased (n − 1); 0 for fewer than two values. */
export function standardDeviation(values: ArrayLike<number>, center = mean(values)): number {
  if (values.length < 2) return 0;
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += (values[i]! - center) ** 2;
  return Math.sqrt(sum / (values.length - 1));
}

/** True when all values are the same number (NaN is not). Compared exactly, so that rounding cannot make a signal of nothing. */
export function constant(values: ArrayLike<number>): boolean {
  for (let i = 0; i < values.length; i++) if (values[i] !== values[0]) return false;
  return true;
}

/** One number per sequence, given to all its tokens. */
export function spread(sequences: readonly Sequence[], perSequence: ArrayLike<number>): Advantages[] {
  return sequences.map(({ old }, i) => ({ advantages: new Float32Array(old.length).fill(perSequence[i]!) }));
}

/** Episode rewards, less β·Σ_t(old − ref) where the KL penalty is in the reward. */
export function rewardsOf(sequences: readonly Sequence[], beta = 0): number[] {
  return sequences.map(({ reward, old, ref }) => (beta > 0 && ref ? reward - beta * sampledKl(old, ref) : reward));
}

/** Adds the count of tokens that learn in each sequence's group to its context (BNPO). */
export function withGroupTokens(sequences: readonly Sequence[], advantages: readonly Advantages[]): Advantages[] {
  const tokens = new Map<number, number>();
  for (const { group, old, masked } of sequences)
    tokens.set(group, (tokens.get(group) ?? 0) + (masked ? 0 : old.length));
  return advantages.map((own, i) => ({
    ...own,
    context: { ...own.context, groupTokens: tokens.get(sequences[i]!.group)! },
  }));
}

export function requireValues({ oldValues }: Sequence): Float32Array {
  if (oldValues) return oldValues;
  throw new StatesetError("INVALID_DATA", "Advantages that need values came without oldValues.", {
    hint: "The algorithm's `needs.values` is set: score the batch with values before advantages().",
  });
}

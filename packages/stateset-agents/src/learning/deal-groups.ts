import { createRandom, seedOf } from "../random.ts";
import type { ChainSequence } from "./sequence.ts";
import type { LearnSettings } from "./settings.ts";

/** The groups of each minibatch of a pass. Groups stay whole; with several minibatches they are dealt anew in every pass. */
export function dealGroups(
  sequences: readonly ChainSequence[],
  { seed, minibatches }: LearnSettings,
  step: number,
  epoch: number,
): Set<number>[] {
  const groups = [...new Set(sequences.map((sequence) => sequence.group))];
  const parts = Math.min(minibatches, groups.length);
  if (parts <= 1) return [new Set(groups)];
  const order = createRandom(seedOf(seed, "minibatches", step, epoch)).shuffled(groups);
  return Array.from({ length: parts }, (_, part) => new Set(order.filter((_, i) => i % parts === part)));
}

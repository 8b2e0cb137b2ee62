/**
 * Credit by state: replies of a group that answer the same turn in the same state of the world are compared with each other, whenever they
 * came and in whichever conversation. With R_k = Σ_{j ≥ k} γ^(j−k)·r_j, the discounted rewards from reply k on (turn-credit.ts says which
 * reply earns what), reply k has
 *   A = A_episode + ω·A_state,  A_episode as in group.ts,  A_state = (R_k − mean_S) / (std_S + ε) over the replies S of its state (scale as in group.ts).
 * A reply whose state no other shares has A_state = 0; where none is shared it is credit by episode, to the bit.
 * Source: Feng et al., "Group-in-Group Policy Optimization for LLM Agent Training" (GiGPO), 2025 (ω 1, γ 0.95).
 */
import type { Advantages, Sequence } from "../algorithm.ts";
import { standardDeviation } from "./batch.ts";
import { normalise, normaliseInGroups, type Scale } from "./group.ts";
import { discountedReturns } from "./reinforce-plus-plus.ts";
import { repliesOf, replyRewards, rewardAtEnd } from "./turn-credit.ts";

export interface StateCreditOptions {
  scale?: Scale;
  /** ω. Default 1. */
  weight?: number;
  /** γ, for each reply. Default 0.95. */
  discount?: number;
  rewards?: readonly number[];
}

/** One reply of the batch. */
interface Place {
  sequence: number;
  reply: number;
}

export function stateAdvantages(sequences: readonly Sequence[], options: StateCreditOptions = {}): Advantages[] {
  const { scale = "group", weight = 1, discount = 0.95 } = options;
  const rewards = options.rewards ?? sequences.map(({ reward }) => reward);
  const episode = normaliseInGroups(sequences, rewards, scale);
  const batch = sequences.map((sequence, i) => {
    const replies = repliesOf(sequence.turn);
    const earned = replyRewards(sequence, replies);
    if (replies.length > 0) earned[replies.length - 1]! += rewardAtEnd(sequence, rewards[i]!);
    const advantages = new Float32Array(sequence.turn.length).fill(episode[i]!);
    return { replies, returns: discountedReturns(earned, discount), advantages };
  });
  const batchStd = standardDeviation(batch.flatMap(({ returns }) => [...returns]));
  for (const places of repliesByState(sequences).values()) {
    if (places.length < 2) continue;
    const returns = places.map(({ sequence, reply }) => batch[sequence]!.returns[reply]!);
    const normalised = normalise(returns, scale, batchStd);
    for (const [n, { sequence, reply }] of places.entries()) {
      const { advantages, replies } = batch[sequence]!;
      const { first, last } = replies[reply]!;
      advantages.fill(episode[sequence]! + weight * normalised[n]!, first, last + 1);
    }
  }
  return batch.map(({ advantages }) => ({ advantages }));
}

/** Share of the replies that another reply of their group shares its state with. */
export function sharedStates(sequences: readonly Sequence[]): number {
  const all = sequences.reduce((sum, { turn }) => sum + repliesOf(turn).length, 0);
  const shared = [...repliesByState(sequences).values()].filter(({ length }) => length > 1);
  return all === 0 ? 0 : shared.flat().length / all;
}

function repliesByState(sequences: readonly Sequence[]): Map<string, Place[]> {
  const states = new Map<string, Place[]>();
  for (const [i, { group, turn, states: own = {} }] of sequences.entries()) {
    for (const [k, reply] of repliesOf(turn).entries()) {
      const state = own[reply.turn];
      if (state === undefined) continue;
      const key = `${group}/${state}`;
      const others = states.get(key);
      if (others) others.push({ sequence: i, reply: k });
      else states.set(key, [{ sequence: i, reply: k }]);
    }
  }
  return states;
}

/**
 * Per-turn credit: a reward given on a turn goes to that turn's last sampled token, the reward of the episode to the episode's last.
 * GAE and REINFORCE++ start from these token rewards.
 *
 * `turnAdvantages` is the critic-free use of them: reply k of a conversation returns R_k = Σ_{j ≥ k} r_turn(j) + r_episode and is compared with
 * reply k of the other members of its group (scale as in group.ts). A reply that no other member reached is compared with what the others still
 * had to come when their conversations were over, their r_episode: so it counts whether going on paid, and without rewards on turns every
 * lone reply has its conversation's advantage.
 * Source: Zeng et al., "Reinforcing Multi-Turn Reasoning in LLM Agents via Turn-Level Credit Assignment", 2025 (returns to go instead of
 * the paper's fixed two turns).
 */
import type { Advantages, Sequence } from "../algorithm.ts";
import { membersByGroup, standardDeviation } from "./batch.ts";
import { normalise, type Scale } from "./group.ts";

/** First and last token of each reply, in order. */
export function repliesOf(turn: ArrayLike<number>): { turn: number; first: number; last: number }[] {
  const replies: { turn: number; first: number; last: number }[] = [];
  for (let t = 0; t < turn.length; t++) {
    const open = replies.at(-1);
    if (open && open.turn === turn[t]) open.last = t;
    else replies.push({ turn: turn[t]!, first: t, last: t });
  }
  return replies;
}

/** [replies] of one sequence. A reward on a turn the policy did not write counts for the reply before it, or else the first. */
export function replyRewards(sequence: Sequence, replies: readonly { turn: number }[]): Float64Array {
  const rewards = new Float64Array(replies.length);
  if (replies.length === 0) return rewards;
  for (const [turn, reward] of Object.entries(sequence.turnRewards)) {
    const at = replies.findLastIndex((reply) => reply.turn <= Number(turn));
    rewards[Math.max(0, at)]! += reward;
  }
  return rewards;
}

/** What of the episode's reward is left for its end. */
export function rewardAtEnd({ turnRewards, turnsInReward }: Sequence, episodeReward: number): number {
  if (!turnsInReward) return episodeReward;
  return Object.values(turnRewards).reduce((left, reward) => left - reward, episodeReward);
}

/** [tokens] */
export function tokenRewards(sequence: Sequence, episodeReward = sequence.reward): Float64Array {
  const replies = repliesOf(sequence.turn);
  const perReply = replyRewards(sequence, replies);
  const rewards = new Float64Array(sequence.turn.length);
  for (const [k, { last }] of replies.entries()) rewards[last] = perReply[k]!;
  if (rewards.length > 0) rewards[rewards.length - 1]! += rewardAtEnd(sequence, episodeReward);
  return rewards;
}

export function turnAdvantages(
  sequences: readonly Sequence[],
  options: { scale?: Scale; rewards?: readonly number[] } = {},
): Advantages[] {
  const batch = sequences.map((sequence, i) => {
    const replies = repliesOf(sequence.turn);
    const returns = replyRewards(sequence, replies);
    const end = rewardAtEnd(sequence, options.rewards?.[i] ?? sequence.reward);
    for (let k = replies.length - 1, ahead = end; k >= 0; k--) {
      ahead += returns[k]!;
      returns[k] = ahead;
    }
    return { replies, returns, end, advantages: new Float32Array(sequence.turn.length) };
  });
  const batchStd = standardDeviation(batch.flatMap(({ returns }) => [...returns]));
  const positions = new Map<string, { sequence: number; reply: number }[]>();
  for (const [i, { replies }] of batch.entries())
    for (const k of replies.keys()) {
      const key = `${sequences[i]!.group}/${k}`;
      const others = positions.get(key);
      if (others) others.push({ sequence: i, reply: k });
      else positions.set(key, [{ sequence: i, reply: k }]);
    }
  const groups = membersByGroup(sequences);
  const endsOfOthers = (one: number) =>
    groups
      .get(sequences[one]!.group)!
      .filter((other) => other !== one)
      .map((other) => batch[other]!.end);
  for (const peers of positions.values()) {
    const own = peers.map(({ sequence, reply }) => batch[sequence]!.returns[reply]!);
    if (peers.length === 1) own.push(...endsOfOthers(peers[0]!.sequence));
    const normalised = normalise(own, options.scale ?? "group", batchStd);
    for (const [n, { sequence, reply }] of peers.entries()) {
      const { first, last } = batch[sequence]!.replies[reply]!;
      batch[sequence]!.advantages.fill(normalised[n]!, first, last + 1);
    }
  }
  return batch.map(({ advantages }) => ({ advantages }));
}

import type { Sequence } from "../algorithm/algorithm.ts";
import { learnPlaces } from "../conversation/learn-tokens.ts";
import { partFailuresOf } from "../conversation/part-failures.ts";
import { withTotal } from "../conversation/total.ts";
import {
  type Ended,
  isCut,
  type TokenChain,
  type Trajectory,
  type TrajectoryGroup,
} from "../conversation/trajectory.ts";

/** What an algorithm sees of a trajectory, beside the chains its numbers belong to. */
export interface ChainSequence extends Sequence {
  /** Those that hold learn tokens, in order; the sequence is their learn tokens one after the other. */
  chains: readonly TokenChain[];
  /** The tokens were sampled at it, and must be scored at it. */
  temperature: number;
  /** An earlier policy sampled it: `old` is what the present one says of it. */
  recalled?: true;
}

/** Ends that nothing in the conversation brought about. */
const limits: ReadonlySet<Ended> = new Set<Ended>(["max-turns", "max-tokens", "context-full"]);

/** One sequence per trajectory that has something to learn from (a stub's has not); `group` counts the groups from 0. */
export function sequencesOf(groups: readonly TrajectoryGroup[]): ChainSequence[] {
  return groups.flatMap(({ trajectories }, group) =>
    trajectories
      .filter(({ stub }) => !stub)
      .map((trajectory) => sequenceOf(trajectory, group))
      .filter(({ old }) => old.length > 0),
  );
}

export function sequenceOf(trajectory: Trajectory, group: number): ChainSequence {
  const { temperature } = trajectory;
  const reward = withTotal(trajectory.reward);
  const learnt = trajectory.chains.map((chain) => ({ chain, places: learnPlaces(chain) }));
  const held = learnt.filter(({ places }) => places.length > 0);
  const gather = (numbers: (chain: TokenChain) => ArrayLike<number>) =>
    held.flatMap(({ chain, places }) => places.map((place) => numbers(chain)[place]!));
  const shaped = held.some(({ chain }) => chain.samplerLogprobs);
  const failed = partFailuresOf(reward.metadata).map(({ name }) => name);
  return {
    group,
    chains: held.map(({ chain }) => chain),
    temperature,
    old: Float32Array.from(gather(({ logprobs }) => logprobs)),
    ...(shaped && {
      sampled: Float32Array.from(gather(({ samplerLogprobs, logprobs }) => samplerLogprobs ?? logprobs)),
    }),
    turn: Int32Array.from(gather(({ turn }) => turn)),
    reward: reward.score,
    breakdown: reward.breakdown,
    ...(failed.length > 0 && { failedParts: failed }),
    turnRewards: reward.turns ?? {},
    turnsInReward: true,
    truncated: isCut(trajectory),
    ...(limits.has(trajectory.ended) && { endedByLimit: true as const }),
    ...(trajectory.ended === "failed" && { failed: true }),
  };
}

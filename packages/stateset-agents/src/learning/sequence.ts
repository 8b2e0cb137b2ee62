import type { Sequence } from "../algorithm/algorithm.ts";
import { learnPlaces } from "../conversation/learn-tokens.ts";
import { partFailuresOf } from "../conversation/part-failures.ts";
import { everyCallFailed } from "../conversation/tool-counts.ts";
import { withTotal } from "../conversation/total.ts";
import {
  type Ended,
  isCut,
  isReply,
  type TokenChain,
  type Trajectory,
  type TrajectoryGroup,
  type Turn,
} from "../conversation/trajectory.ts";
import { fingerprint } from "../describe.ts";
import type { LearnSettings } from "./settings.ts";

/** What an algorithm sees of a trajectory, beside the chains its numbers belong to. */
export interface ChainSequence extends Sequence {
  /** Those that hold learn tokens, in order; the sequence is their learn tokens one after the other. */
  chains: readonly TokenChain[];
  /** The tokens were sampled at it, and must be scored at it. */
  temperature: number;
  /** An earlier policy sampled it: `old` is what the present one says of it. */
  recalled?: true;
  /** Tools were called, and no call came to anything. */
  callsFailed?: true;
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
  const states = statesOf(trajectory.turns);
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
    ...(states && { states }),
    truncated: isCut(trajectory),
    ...(everyCallFailed(trajectory.turns) && { callsFailed: true as const }),
    ...(limits.has(trajectory.ended) && { endedByLimit: true as const }),
    ...(trajectory.ended === "failed" && { failed: true }),
  };
}

/** By the turn of a reply: the state of the world before it and what it answers. Only after turns whose environment tells the state. */
function statesOf(turns: readonly Turn[]): Record<number, string> | undefined {
  const states: Record<number, string> = {};
  for (const [i, turn] of turns.entries()) {
    const before = turns[i - 1];
    const hash = before?.metadata?.stateHash;
    if (isReply(turn) && typeof hash === "string") states[i] = fingerprint([hash, before!.role, before!.content]);
  }
  return Object.keys(states).length > 0 ? states : undefined;
}

/** Whether the settings say that nothing is learnt from such a conversation. */
export function isMasked(
  { maskTruncated, maskFailedCalls }: Pick<LearnSettings, "maskTruncated" | "maskFailedCalls">,
  { truncated, callsFailed = false }: { truncated: boolean; callsFailed?: boolean },
): boolean {
  return (maskTruncated && truncated) || (maskFailedCalls && callsFailed);
}

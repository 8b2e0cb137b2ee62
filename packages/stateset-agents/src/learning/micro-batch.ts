/**
 * From conversations to numbers and back: a trajectory becomes a Sequence of its learn tokens; sequences become token trees
 * that fit the token budget; per-token numbers of a tree are gathered to sequences, derivatives scattered back.
 * Tokens that two sequences share sit in the tree once; their derivatives add up there.
 */
import type { Sequence } from "../algorithm/algorithm.ts";
import { buildTokenTree, type MergedChains } from "../conversation/token-tree.ts";
import type { TokenChain, Trajectory, TrajectoryGroup } from "../conversation/trajectory.ts";

/** A trajectory beside the numbers the algorithm sees of it. */
export interface Example {
  trajectory: Trajectory;
  sequence: Sequence;
  /** The chains that hold learn tokens, in order; the sequence is their learn tokens one after the other. */
  chains: TokenChain[];
}

/** One example per trajectory that has something to learn from (a stub's has not); `group` counts the groups from 0. */
export function examplesOf(groups: readonly TrajectoryGroup[]): Example[] {
  return groups.flatMap(({ trajectories }, group) =>
    trajectories
      .filter((trajectory) => !trajectory.stub)
      .map((trajectory) => exampleOf(trajectory, group))
      .filter((example) => example.sequence.old.length > 0),
  );
}

export function exampleOf(trajectory: Trajectory, group: number): Example {
  const chains = trajectory.chains.filter((chain) => learnPositions(chain).length > 0);
  const length = chains.reduce((sum, chain) => sum + learnPositions(chain).length, 0);
  const old = new Float32Array(length);
  const turn = new Int32Array(length);
  let at = 0;
  for (const chain of chains) {
    for (const position of learnPositions(chain)) {
      old[at] = chain.logprobs[position]!;
      turn[at] = chain.turn[position]!;
      at++;
    }
  }
  const turnRewards: Record<number, number> = {};
  trajectory.turns.forEach(({ reward }, index) => {
    if (reward !== undefined) turnRewards[index] = reward;
  });
  for (const [index, reward] of Object.entries(trajectory.reward.turns ?? {})) {
    turnRewards[Number(index)] = (turnRewards[Number(index)] ?? 0) + reward;
  }
  const { score, breakdown } = trajectory.reward;
  const truncated = trajectory.metadata.truncated === true || trajectory.ended === "context-full";
  return {
    trajectory,
    chains,
    sequence: {
      group,
      old,
      turn,
      reward: score,
      breakdown,
      turnRewards,
      // Without a reward function the environment's rewards are the score already.
      ...(trajectory.reward.metadata?.fromEnvironment === true && { turnsInReward: true }),
      truncated,
    },
  };
}

/** Where the learn tokens of a chain are. The first token of a chain has no log-prob and never is one. */
function learnPositions(chain: TokenChain): number[] {
  const positions: number[] = [];
  for (let i = 1; i < chain.learn.length; i++) if (chain.learn[i] === 1) positions.push(i);
  return positions;
}

/** Some examples as one tree. `members` are indices into the examples it was made of. */
export interface MicroBatch {
  members: number[];
  merged: MergedChains;
  /** Sampling temperature of its tokens. */
  temperature: number;
  /** Per member: the tree index of each learn token. [members][tokens] */
  places: Int32Array[];
}

/**
 * Packs examples into micro-batches of at most `tokenBudget` distinct tokens, in order, whole groups together where they fit.
 * An example that is longer than the budget has a micro-batch of its own.
 */
export function microBatches(
  examples: readonly Example[],
  members: readonly number[],
  tokenBudget: number,
): MicroBatch[] {
  const batches: MicroBatch[] = [];
  let open = new Packer();
  const close = () => {
    if (open.members.length > 0) batches.push(toMicroBatch(examples, open.members));
    open = new Packer();
  };
  for (const group of byGroupAndTemperature(examples, members)) {
    const temperature = examples[group[0]!]!.trajectory.temperature;
    if (open.members.length > 0 && (open.temperature !== temperature || open.costOf(examples, group) > tokenBudget))
      close();
    for (const member of group) {
      if (open.members.length > 0 && open.costOf(examples, [member]) > tokenBudget) close();
      open.add(examples, member);
    }
  }
  close();
  return batches;
}

/** Counts distinct tokens: a chain adds what lies beyond its longest common prefix with the chains already there. */
class Packer {
  readonly members: number[] = [];
  temperature = 1;
  #chains: TokenChain[] = [];
  #tokens = 0;

  /** Distinct tokens with these members added. */
  costOf(examples: readonly Example[], members: readonly number[]): number {
    const chains = [...this.#chains];
    let tokens = this.#tokens;
    for (const member of members) {
      for (const chain of examples[member]!.chains) {
        tokens += newTokens(chains, chain);
        chains.push(chain);
      }
    }
    return tokens;
  }

  add(examples: readonly Example[], member: number): void {
    this.#tokens = this.costOf(examples, [member]);
    this.#chains.push(...examples[member]!.chains);
    this.members.push(member);
    this.temperature = examples[member]!.trajectory.temperature;
  }
}

function newTokens(chains: readonly TokenChain[], chain: TokenChain): number {
  let shared = 0;
  for (const { tokens } of chains) {
    const limit = Math.min(tokens.length, chain.tokens.length);
    let i = 0;
    while (i < limit && tokens[i] === chain.tokens[i]) i++;
    shared = Math.max(shared, i);
  }
  return chain.tokens.length - shared;
}

/** Consecutive members of one group and one temperature. */
function byGroupAndTemperature(examples: readonly Example[], members: readonly number[]): number[][] {
  const runs: number[][] = [];
  const same = (a: Example, b: Example) =>
    a.sequence.group === b.sequence.group && a.trajectory.temperature === b.trajectory.temperature;
  for (const member of members) {
    const run = runs.at(-1);
    if (run && same(examples[run[0]!]!, examples[member]!)) run.push(member);
    else runs.push([member]);
  }
  return runs;
}

function toMicroBatch(examples: readonly Example[], members: number[]): MicroBatch {
  const chains = members.flatMap((member) => examples[member]!.chains);
  const merged = buildTokenTree(chains);
  let chain = 0;
  const places = members.map((member) =>
    Int32Array.from(
      examples[member]!.chains.flatMap((own) => {
        const positions = merged.positions[chain++]!;
        return learnPositions(own).map((position) => positions[position]!);
      }),
    ),
  );
  return { members, merged, places, temperature: examples[members[0]!]!.trajectory.temperature };
}

/** Per-token numbers of the tree, for each member's learn tokens. [members][tokens] */
export function gather(batch: MicroBatch, numbers: Float32Array): Float32Array[] {
  return batch.places.map((places) => Float32Array.from(places, (place) => numbers[place]!));
}

/** V(state before each learn token): the value head's number at the token before it. [members][tokens] */
export function gatherValues(batch: MicroBatch, values: Float32Array): Float32Array[] {
  const { predecessor } = batch.merged;
  return batch.places.map((places) => Float32Array.from(places, (place) => values[predecessor[place]!]!));
}

/** The transpose of gather(): derivatives by learn token, added up by tree token. */
export function scatter(batch: MicroBatch, derivatives: readonly Float32Array[]): Float32Array {
  return scatterTo(batch, derivatives, (place) => place);
}

/** The transpose of gatherValues(). */
export function scatterValues(batch: MicroBatch, derivatives: readonly Float32Array[]): Float32Array {
  return scatterTo(batch, derivatives, (place) => batch.merged.predecessor[place]!);
}

function scatterTo(
  batch: MicroBatch,
  derivatives: readonly Float32Array[],
  target: (place: number) => number,
): Float32Array {
  // Sums in float64, so that the order of members does not show in the last bit more than it must.
  const sums = new Float64Array(batch.merged.tree.tokens.length);
  batch.places.forEach((places, member) => {
    const own = derivatives[member]!;
    for (let t = 0; t < places.length; t++) sums[target(places[t]!)]! += own[t]!;
  });
  return Float32Array.from(sums);
}

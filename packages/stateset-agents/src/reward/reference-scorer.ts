/**
 * Log-probs of replies under a frozen reference: the model without its adapter, or as it was opened, whatever training has made of it
 * since. Nothing is computed, and no reference made, before a reward asks.
 */
import { throwIfAborted, withDeadline } from "../abort.ts";
import { buildTokenTree, PrefixForest } from "../conversation/token-tree.ts";
import type { TokenChain, Turn } from "../conversation/trajectory.ts";
import type { Policy, Reference } from "../policy/policy.ts";
import type { ScoreTurns, TurnScore } from "./reward-function.ts";

/** Distinct tokens in one pass at most. */
const tokenBudget = 4096;

/** A conversation with the tokens it was sampled as. */
export interface SampledConversation {
  turns: readonly Turn[];
  chains: readonly TokenChain[];
}

export interface ReferenceScorer {
  /**
   * For the conversations of one group, which are scored together when the first of them is asked for: what comes out does not depend
   * on who asks when. Other turns are tokenised as the chat template prints them. `signal` stops the work.
   */
  forGroup(group: readonly SampledConversation[], signal?: AbortSignal): ScoreTurns;
  /** Whether a reward has asked, and a reference is kept for it. */
  readonly asked: boolean;
  close(): Promise<void>;
}

interface Scored {
  tokens: Int32Array;
  /** The turn a token is scored for, -1 where it is context. */
  turn: Int32Array;
}

export function createReferenceScorer(policy: Policy): ReferenceScorer {
  let reference: Promise<Reference> | undefined;
  const known = new WeakMap<readonly Turn[], Promise<TurnScore[]>>();

  const compute = async (chains: readonly Scored[], signal: AbortSignal | undefined): Promise<Float32Array[]> => {
    reference ??= policy.reference("base");
    const { logprobs } = await reference.catch((error: unknown) => {
      reference = undefined;
      throw error;
    });
    const results: Float32Array[] = [];
    for (const batch of batchesOf(chains)) {
      throwIfAborted(signal, "while replies were scored");
      const learn = batch.map(({ turn }) => Uint8Array.from(turn, (one) => (one >= 0 ? 1 : 0)));
      const { tree, positions } = buildTokenTree(batch.map(({ tokens }, i) => ({ tokens, learn: learn[i]! })));
      const numbers = await logprobs(tree);
      results.push(...positions.map((places) => Float32Array.from(places, (place) => numbers[place]!)));
    }
    return results;
  };

  /** Puts the scores of all of them where they are found, at once. */
  const begin = (
    conversations: readonly { turns: readonly Turn[]; chains: readonly Scored[] }[],
    signal?: AbortSignal,
  ) => {
    const chains = conversations.flatMap((one) => one.chains);
    const work = compute(chains, signal);
    let at = 0;
    for (const { turns, chains } of conversations) {
      const from = at;
      at += chains.length;
      const own = work.then((logprobs) => scoresOf(chains, logprobs.slice(from, from + chains.length)));
      // What was stopped or failed may be asked for again.
      own.catch(() => known.delete(turns));
      known.set(turns, own);
    }
  };

  return {
    forGroup: (group, signal) => (turns) => {
      if (!known.has(turns)) {
        const inside = group.some((one) => one.turns === turns);
        begin(
          inside ? group.filter((one) => !known.has(one.turns)) : [{ turns, chains: [rendered(policy, turns)] }],
          signal,
        );
      }
      return known.get(turns)!;
    },
    get asked() {
      return reference !== undefined;
    },
    async close() {
      const made = await reference?.catch(() => undefined);
      reference = undefined;
      await made?.close();
    },
  };
}

/** The same score, for one who stops waiting when `signal` fires: others may wait for it, too. */
export function stoppable(score: ScoreTurns, signal: AbortSignal): ScoreTurns {
  return (turns) => withDeadline(() => score(turns), { signal, during: "while replies were scored" });
}

function rendered({ tokenizer }: Policy, turns: readonly Turn[]): Scored {
  const segments = tokenizer.segments(turns);
  const tokens = segments.flatMap((segment) => [...segment.tokens]);
  const turn = segments.flatMap(({ generated, message, tokens }) => [...tokens].map(() => (generated ? message : -1)));
  return { tokens: Int32Array.from(tokens), turn: Int32Array.from(turn) };
}

/** In order; one larger than the budget goes alone. */
function* batchesOf(chains: readonly Scored[]): Generator<Scored[]> {
  let batch: Scored[] = [];
  let forest = new PrefixForest();
  for (const chain of chains) {
    forest.add(chain.tokens);
    if (batch.length > 0 && forest.size > tokenBudget) {
      yield batch;
      batch = [];
      forest = new PrefixForest();
      forest.add(chain.tokens);
    }
    batch.push(chain);
  }
  if (batch.length > 0) yield batch;
}

function scoresOf(chains: readonly Scored[], logprobs: readonly Float32Array[]): TurnScore[] {
  const byTurn = new Map<number, number[]>();
  chains.forEach(({ turn }, c) => {
    // The first token of a chain has no context to be predicted from.
    for (let i = 1; i < turn.length; i++) {
      if (turn[i]! < 0) continue;
      byTurn.set(turn[i]!, [...(byTurn.get(turn[i]!) ?? []), logprobs[c]![i]!]);
    }
  });
  return [...byTurn].sort(([a], [b]) => a - b).map(([turn, own]) => ({ turn, logprobs: Float32Array.from(own) }));
}

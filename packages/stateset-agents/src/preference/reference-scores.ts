/** What the reference says of preference pairs: computed once, before the first step, and kept with the checkpoints. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { throwIfAborted } from "../abort.ts";
import { fingerprint } from "../describe.ts";
import { alikeBatches, gather } from "../learning/micro-batch.ts";
import type { Unit } from "../learning/pack.ts";
import type { Policy, Reference } from "../policy/policy.ts";
import type { RunPart } from "../run/checkpoint/store.ts";
import type { SeenNumbers } from "../run/example-records.ts";
import { type PairChains, sideTokens } from "./pair.ts";

/** A pair with the reference's log-probs of both sides. [learn tokens] */
export interface ScoredPair extends PairChains {
  refChosen: Float32Array;
  refRejected: Float32Array;
}

export interface ReferenceScoresOptions {
  policy: Policy;
  /** Undefined for a loss that has no reference: it says nothing of any token. */
  of: "start" | "base" | undefined;
  tokenBudget: number;
  pairs: readonly PairChains[];
  heldOut: readonly PairChains[] | undefined;
}

/** A part of a run, so that a resumed one needs no weights it no longer has. */
export class ReferenceScores implements RunPart {
  readonly #options: ReferenceScoresOptions;
  /** Those to learn from, then the held-out ones. */
  #scored: ScoredPair[] | undefined;

  constructor(options: ReferenceScoresOptions) {
    this.#options = options;
  }

  pairsOf(indices: readonly number[]): ScoredPair[] {
    return indices.map((i) => this.#scored![i]!);
  }

  get heldOut(): readonly ScoredPair[] {
    return this.#scored!.slice(this.#options.pairs.length);
  }

  /** Asks the reference, unless a checkpoint brought what it said. */
  async prepare(signal: AbortSignal | undefined): Promise<void> {
    if (this.#scored) return;
    const { policy, of, tokenBudget } = this.#options;
    if (of === undefined) {
      this.#scored = this.#all().map(unscored);
      return;
    }
    const reference = await policy.reference(of === "base" ? "base" : "present");
    try {
      this.#scored = await scorePairs(reference, this.#all(), tokenBudget, signal);
    } finally {
      await reference.close();
    }
  }

  async snapshot(dir: string): Promise<undefined> {
    if (!this.#scored) return;
    mkdirSync(dir);
    writeFileSync(join(dir, "pairs"), this.#fingerprint());
    const numbers = this.#scored.flatMap(({ refChosen, refRejected }) => [refChosen, refRejected]);
    writeFileSync(
      join(dir, "logprobs.bin"),
      Buffer.concat(numbers.map((side) => new Uint8Array(side.buffer, side.byteOffset, side.byteLength))),
    );
  }

  /** Takes what is kept where it is of the same pairs and the same reference; prepare() asks again where it is not. */
  async restore(dir: string): Promise<void> {
    this.#scored = undefined;
    if (readFileSync(join(dir, "pairs"), "utf8") !== this.#fingerprint()) return;
    const kept = new Float32Array(new Uint8Array(readFileSync(join(dir, "logprobs.bin"))).buffer);
    let at = 0;
    const take = (count: number) => {
      at += count;
      return kept.slice(at - count, at);
    };
    this.#scored = this.#all().map((pair) => ({
      ...pair,
      refChosen: take(sideTokens(pair.chosen)),
      refRejected: take(sideTokens(pair.rejected)),
    }));
  }

  #all(): PairChains[] {
    const { pairs, heldOut = [] } = this.#options;
    return [...pairs, ...heldOut];
  }

  #fingerprint(): string {
    const { of } = this.#options;
    const chains = this.#all().flatMap(({ chosen, rejected }) => [...chosen, ...rejected]);
    return fingerprint([of, chains.map(({ tokens, learn }) => [tokens, learn])]);
  }
}

export async function scorePairs(
  reference: Reference,
  pairs: readonly PairChains[],
  tokenBudget: number,
  signal?: AbortSignal,
): Promise<ScoredPair[]> {
  const scored = new Array<ScoredPair>(pairs.length);
  for (const micro of alikeBatches(pairs.map(unitOf), tokenBudget)) {
    throwIfAborted(signal, "while the reference was scored");
    const logprobs = gather(micro, await reference.logprobs(micro.merged.tree));
    micro.members.forEach((member, i) => {
      const pair = pairs[member]!;
      const [refChosen, refRejected] = splitSides(pair, logprobs[i]!);
      scored[member] = { ...pair, refChosen, refRejected };
    });
  }
  return scored;
}

/** A pair that no reference was asked about. */
export function unscored(pair: PairChains): ScoredPair {
  const none = (side: PairChains["chosen"]) => new Float32Array(sideTokens(side));
  return { ...pair, refChosen: none(pair.chosen), refRejected: none(pair.rejected) };
}

export function unitOf({ chosen, rejected }: PairChains): Unit {
  return { chains: [...chosen, ...rejected] };
}

/** Of what was seen of a pair, each side's own. */
export function seenSides(
  pair: PairChains,
  seen: SeenNumbers = {},
): Record<"chosen" | "rejected", { learnt: SeenNumbers }> {
  const split = (Object.entries(seen) as [keyof SeenNumbers, Float32Array][]).map(
    ([name, numbers]) => [name, splitSides(pair, numbers)] as const,
  );
  const of = (side: 0 | 1): { learnt: SeenNumbers } => ({
    learnt: Object.fromEntries(split.map(([name, sides]) => [name, sides[side]])),
  });
  return { chosen: of(0), rejected: of(1) };
}

/** A pair's numbers come one side after the other. */
export function splitSides({ chosen }: PairChains, numbers: Float32Array): [Float32Array, Float32Array] {
  const at = sideTokens(chosen);
  return [numbers.subarray(0, at), numbers.subarray(at)];
}

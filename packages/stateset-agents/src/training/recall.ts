/**
 * What a run remembers of its scenarios, so that one it has lost is learnt again.
 *
 * A scenario is lost when a group of it is all alike below what it once reached: comparing its conversations then teaches nothing, and the
 * policy would never come back. The best conversation of the scenario joins such a group, as if the present policy had sampled it.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Algorithm } from "../algorithm/algorithm.ts";
import { learnCount, learnPlaces } from "../conversation/learn-tokens.ts";
import { everyCallFailed } from "../conversation/tool-counts.ts";
import { isCut, type TokenChain, type TrajectoryGroup } from "../conversation/trajectory.ts";
import { StatesetError } from "../error.ts";
import { type ChainSequence, isMasked, sequenceOf } from "../learning/sequence.ts";
import type { RunPart } from "../run/checkpoint/store.ts";
import { encodeTokens, readTokens } from "../run/token-file.ts";
import { isConstant } from "./step-metrics.ts";

/** Scenarios that are remembered at most; those met least lately are forgotten first. */
export const mostScenarios = 1024;

/** What learning needs of a conversation beside its tokens: plain data. */
type Facts = Omit<ChainSequence, "chains" | "old" | "sampled" | "turn">;
type RememberedChain = Pick<TokenChain, "tokens" | "logprobs" | "learn" | "turn">;

interface Remembered {
  /** The best conversation so far, the latest among equals. */
  best: { facts: Facts; chains: RememberedChain[] };
  /** Its last group was all alike below that. */
  lost: boolean;
}

/** A line of a checkpoint's recall/scenarios.json. */
interface SavedScenario {
  id: string;
  lost: boolean;
  facts: Facts;
  /** Tokens of each chain. */
  chains: number[];
}

export function willRecall(
  { recall }: { recall: boolean },
  { comparesGroups }: Pick<Algorithm, "comparesGroups">,
): boolean {
  return recall && comparesGroups === true;
}

export class Recall implements RunPart {
  /** By id, those met least lately first. */
  readonly #scenarios = new Map<string, Remembered>();
  readonly #masks: Parameters<typeof isMasked>[0];

  constructor({ maskTruncated, maskFailedCalls = false }: { maskTruncated: boolean; maskFailedCalls?: boolean }) {
    this.#masks = { maskTruncated, maskFailedCalls };
  }

  /** What joins a group, which is the batch's `index`-th: one remembered conversation, or none. */
  joining(group: TrajectoryGroup, index: number): ChainSequence[] {
    const own = this.#scenarios.get(group.scenarioId);
    if (!own || !isLost(group, own)) return [];
    const { facts, chains } = own.best;
    const places = chains.map(learnPlaces);
    const gather = (of: (chain: RememberedChain) => ArrayLike<number>) =>
      chains.flatMap((chain, c) => places[c]!.map((place) => of(chain)[place]!));
    const old = Float32Array.from(gather(({ logprobs }) => logprobs));
    const turn = Int32Array.from(gather(({ turn }) => turn));
    return [{ ...facts, chains, old, turn, group: index, recalled: true }];
  }

  /** The scenarios that are lost, the one that has waited longest first. */
  lost(): string[] {
    return [...this.#scenarios].flatMap(([id, { lost }]) => (lost ? [id] : []));
  }

  /** Once a step is over: what was sampled in it. */
  note(groups: readonly TrajectoryGroup[]): void {
    for (const group of groups) {
      const { scenarioId } = group;
      const own = this.#scenarios.get(scenarioId);
      const best = this.#better(group, own?.best.facts.reward) ?? own?.best;
      this.#scenarios.delete(scenarioId);
      if (best) this.#scenarios.set(scenarioId, { best, lost: own !== undefined && isLost(group, own) });
    }
    for (const id of this.#scenarios.keys()) {
      if (this.#scenarios.size <= mostScenarios) break;
      this.#scenarios.delete(id);
    }
  }

  /** The best of a group, where that is no worse than what was reached. */
  #better({ trajectories }: TrajectoryGroup, reached = Number.NEGATIVE_INFINITY): Remembered["best"] | undefined {
    // What broke its environment is nothing to go back to, and nothing is learnt from what is masked.
    const whole = trajectories.filter((one) => {
      const facts = { truncated: isCut(one), callsFailed: everyCallFailed(one.turns) };
      return one.ended !== "failed" && !isMasked(this.#masks, facts);
    });
    const top = Math.max(...whole.map(({ reward }) => reward.score));
    const best = whole.find(({ reward }) => reward.score === top);
    if (!best || top < reached) return undefined;
    const { chains, old, sampled: _, turn: __, ...facts } = sequenceOf(best, 0);
    if (old.length === 0) return undefined;
    return { facts, chains: chains.map(({ tokens, logprobs, learn, turn }) => ({ tokens, logprobs, learn, turn })) };
  }

  async snapshot(dir: string): Promise<undefined> {
    const all = [...this.#scenarios];
    const saved = all.map(
      ([
        id,
        {
          lost,
          best: { facts, chains },
        },
      ]): SavedScenario => {
        return { id, lost, facts, chains: chains.map(({ tokens }) => tokens.length) };
      },
    );
    const chains = all.flatMap(([, { best }]) => best.chains);
    const sum = (of: (chain: RememberedChain) => number) => chains.reduce((total, chain) => total + of(chain), 0);
    const counts = { tokens: sum(({ tokens }) => tokens.length), learnTokens: sum(learnCount) };
    mkdirSync(dir, { recursive: true });
    writeFileSync(join(dir, "scenarios.json"), JSON.stringify(saved));
    writeFileSync(
      join(dir, "tokens.bin"),
      encodeTokens(counts, new Set(), (columns) => {
        let offset = 0;
        for (const chain of chains) {
          columns.tokens!.set(chain.tokens, offset);
          columns.logprobs!.set(chain.logprobs, offset);
          columns.learn!.set(chain.learn, offset);
          columns.turn!.set(chain.turn, offset);
          offset += chain.tokens.length;
        }
      }),
    );
  }

  async restore(dir: string): Promise<void> {
    const saved = JSON.parse(readFileSync(join(dir, "scenarios.json"), "utf8")) as SavedScenario[];
    const path = join(dir, "tokens.bin");
    const file = readTokens(path);
    if (!file) throw new StatesetError("CHECKPOINT_INVALID", `The checkpoint has no ${path}.`);
    const { tokens, logprobs, learn, turn } = file.columns;
    let offset = 0;
    const chainOf = (length: number): RememberedChain => {
      const [from, to] = [offset, offset + length];
      offset = to;
      return {
        tokens: tokens!.slice(from, to),
        logprobs: logprobs!.slice(from, to),
        learn: learn!.slice(from, to),
        turn: turn!.slice(from, to),
      };
    };
    this.#scenarios.clear();
    for (const { id, lost, facts, chains } of saved) {
      this.#scenarios.set(id, { lost, best: { facts, chains: chains.map(chainOf) } });
    }
  }
}

function isLost(group: TrajectoryGroup, { best }: Remembered): boolean {
  return isConstant(group) && group.trajectories[0]!.reward.score < best.facts.reward;
}

import { readPart, withSystem } from "../conversation/chat-layouts.ts";
import { learnCount } from "../conversation/learn-tokens.ts";
import type { Message, MessageInput } from "../conversation/message.ts";
import { type ReadOptions, readEntries } from "../conversation/read-entries.ts";
import type { TreeChain } from "../conversation/token-tree.ts";
import { totalOf } from "../conversation/total.ts";
import type { TrajectoryGroup } from "../conversation/trajectory.ts";
import { StatesetError } from "../error.ts";
import { sharedLength } from "../learning/pack.ts";
import type { ChatTokenizer } from "../policy/policy.ts";
import type { LearntExample } from "../run/example-records.ts";
import {
  type CheckedConversation,
  encodeConversation,
  isChain,
  readTemplateOptions,
  requireLearnTokens,
  warnOfSpelt,
} from "../supervised/example.ts";

/** Two ways a conversation went on, the first one preferred. Both may hold several turns; only assistant messages teach. */
export interface PreferencePair extends Pick<CheckedConversation, "tools" | "templateVariables"> {
  /** What both have in common. */
  prompt: readonly Message[];
  chosen: readonly Message[];
  rejected: readonly Message[];
  /** How much better the chosen one is, for a reward model's margin. */
  margin?: number;
}

/**
 * A pair in the layouts such data comes in: messages, or strings that stand for one message of the user (prompt) or the assistant; without a
 * prompt, two whole conversations whose common beginning it is.
 */
export interface PreferenceInput extends Pick<PreferencePair, "tools" | "templateVariables" | "margin"> {
  prompt?: string | readonly MessageInput[];
  chosen: string | readonly MessageInput[];
  rejected: string | readonly MessageInput[];
  /** A system prompt, before all of it. */
  system?: string | undefined;
}

/**
 * A pair as tokens. `learn` marks the assistant's tokens after the prompt. A side that was sampled has several chains where the template
 * printed its past anew: each holds the replies of its part of the conversation, and all of them are the side.
 */
export interface PairChains {
  chosen: readonly TreeChain[];
  rejected: readonly TreeChain[];
  margin?: number;
}

export function sideTokens(side: readonly TreeChain[]): number {
  return side.reduce((sum, chain) => sum + learnCount(chain), 0);
}

const hint = 'A pair is a line {"prompt": […], "chosen": […], "rejected": […]}.';

/** Pairs of a JSONL file, one `PreferenceInput` a line. */
export async function loadPreferencePairs(path: string, options: ReadOptions = {}): Promise<PreferencePair[]> {
  const pairs: PreferencePair[] = [];
  for await (const pair of readEntries(path, readPair, options, "loadPreferencePairs()")) pairs.push(pair);
  if (pairs.length === 0) throw new StatesetError("INVALID_DATA", `${path} holds no pairs.`, { hint });
  return pairs;
}

/** Checks a pair and puts it in the one layout used here. */
export function readPair(value: unknown, where: string): PreferencePair {
  const record = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  for (const key of ["chosen", "rejected"]) {
    if (record[key] === undefined) {
      throw new StatesetError("INVALID_DATA", `${where}: no "${key}".`, { hint });
    }
  }
  const { margin } = record;
  if (margin !== undefined && (typeof margin !== "number" || !Number.isFinite(margin))) {
    throw new StatesetError("INVALID_DATA", `${where}: the margin is not a finite number.`);
  }
  // ShareGPT's pairs have the prompt under this name.
  const asked = record.prompt ?? record.conversations;
  const headed = (messages: Message[]) => withSystem(record.system, messages, where);
  const prompt = asked === undefined ? undefined : headed(readPart(asked, "user", { where: `${where}: prompt` }));
  const side = (key: "chosen" | "rejected") => {
    const messages = readPart(record[key], "assistant", {
      where: `${where}: ${key}`,
      ...(prompt && { after: prompt }),
    });
    return prompt ? messages : headed(messages);
  };
  const pair = {
    chosen: side("chosen"),
    rejected: side("rejected"),
    ...readTemplateOptions(record, where),
    ...(margin === undefined ? {} : { margin }),
  };
  return prompt ? { prompt, ...pair } : splitPrompt(pair);
}

/** Takes the common beginning out of two whole conversations. */
function splitPrompt(pair: Omit<PreferencePair, "prompt">): PreferencePair {
  const most = Math.min(pair.chosen.length, pair.rejected.length);
  let n = 0;
  while (n < most && JSON.stringify(pair.chosen[n]) === JSON.stringify(pair.rejected[n])) n++;
  return { ...pair, prompt: pair.chosen.slice(0, n), chosen: pair.chosen.slice(n), rejected: pair.rejected.slice(n) };
}

export interface EncodedPairs {
  pairs: PairChains[];
  /** Which pair each is, and its messages where it has some. */
  sources: { index: number; pair: PreferencePair | undefined }[];
  /** Pairs left out: longer than the context, or with no assistant token of their own on one side. */
  dropped: number;
  /** Pairs one side of which spells control tokens in plain text. */
  spelt: number;
}

export function encodePairs(
  tokenizer: ChatTokenizer,
  pairs: readonly (PreferenceInput | PairChains)[],
  contextLength: number,
): EncodedPairs {
  const result: EncodedPairs = { pairs: [], sources: [], dropped: 0, spelt: 0 };
  const spelt = new Set<string>();
  for (const [i, pair] of pairs.entries()) {
    const found = new Set<string>();
    const read = isPairChains(pair) ? undefined : readPair(pair, `pairs[${i}]`);
    const encoded = read ? encodePair(tokenizer, read, found) : (pair as PairChains);
    if (found.size > 0) result.spelt++;
    for (const token of found) spelt.add(token);
    const sides = [encoded.chosen, encoded.rejected];
    // Cutting a reply would change which of the two is better, so a pair that does not fit is left out.
    const fits = sides.every(
      (side) => sideTokens(side) > 0 && side.every(({ tokens }) => tokens.length <= contextLength),
    );
    if (fits && !sameTokens(encoded)) {
      result.pairs.push(encoded);
      result.sources.push({ index: i, pair: read });
    } else result.dropped++;
  }
  if (result.pairs.length === 0) {
    throw new StatesetError("INVALID_DATA", `None of the ${pairs.length} preference pairs can be learnt from.`, {
      hint: "Each side needs an assistant message, the sides must differ, and both must fit the model's context.",
    });
  }
  warnOfSpelt(result.spelt, pairs.length, "pairs", spelt);
  return result;
}

/** The two sides of a pair as they were learnt from, for the record of a run. */
export function pairExamples(
  sides: PairChains,
  { index, pair }: EncodedPairs["sources"][number],
  of: Partial<Record<"chosen" | "rejected", Pick<LearntExample, "learnt" | "score">>> = {},
): LearntExample[] {
  return (["chosen", "rejected"] as const).map((side) => ({
    id: `pair-${index}-${side}`,
    pair: `pair-${index}`,
    side,
    chains: sides[side],
    ...of[side],
    ...(pair && {
      messages: [...pair.prompt, ...pair[side]],
      tools: pair.tools,
      templateVariables: pair.templateVariables,
    }),
  }));
}

export function isPairChains(pair: unknown): pair is PairChains {
  const { chosen, rejected } = (pair ?? {}) as Partial<PairChains>;
  return [chosen, rejected].every((side) => Array.isArray(side) && side.length > 0 && side.every(isChain));
}

function encodePair(tokenizer: ChatTokenizer, pair: PreferencePair, spelt: Set<string>): PairChains {
  const side = (messages: readonly Message[]) => [encodeSide(tokenizer, pair, messages, spelt)];
  const { margin } = pair;
  return { chosen: side(pair.chosen), rejected: side(pair.rejected), ...(margin === undefined ? {} : { margin }) };
}

/** A prompt and how it went on, with `learn` on the latter. Adds the control tokens that its replies only spell to `spelt`. */
export function encodeSide(
  tokenizer: ChatTokenizer,
  { prompt, tools, templateVariables }: Pick<PreferencePair, "prompt" | "tools" | "templateVariables">,
  messages: readonly Message[],
  spelt: Set<string>,
): TreeChain {
  const encoded = encodeConversation(tokenizer, { messages: [...prompt, ...messages], tools, templateVariables });
  const learn = encoded.learn.map((value, i) => (encoded.message[i]! >= prompt.length ? value : 0));
  const own = encoded.spelt.filter(({ message }) => message >= prompt.length);
  for (const { tokens } of own) for (const token of tokens) spelt.add(token);
  return { tokens: encoded.tokens, learn };
}

function sameTokens({ chosen, rejected }: PairChains): boolean {
  const same = (a: Int32Array, b: Int32Array) => a.length === b.length && sharedLength(a, b) === a.length;
  return chosen.length === rejected.length && chosen.every(({ tokens }, i) => same(tokens, rejected[i]!.tokens));
}

export interface PairsFromGroupOptions {
  /** Rewards must differ by more than this. Default 0. */
  minGap?: number;
  /** Pairs per group at most: best with worst, second best with second worst, … Default 1. */
  perGroup?: number;
}

/** Pairs from sampled conversations ranked by their reward, on the tokens that were sampled. */
export function pairsFromGroups(groups: readonly TrajectoryGroup[], options: PairsFromGroupOptions = {}): PairChains[] {
  const { minGap = 0, perGroup = 1 } = options;
  requireLearnTokens(
    groups.flatMap(({ trajectories }) => trajectories),
    "pairsFromGroups()",
  );
  return groups.flatMap(({ trajectories }) => {
    const ranked = trajectories
      .filter((trajectory) => sideTokens(trajectory.chains) > 0 && !trajectory.stub)
      .sort((a, b) => totalOf(b.reward) - totalOf(a.reward));
    const pairs: PairChains[] = [];
    for (let i = 0; i < perGroup && i < ranked.length - 1 - i; i++) {
      const [best, worst] = [ranked[i]!, ranked[ranked.length - 1 - i]!];
      const margin = totalOf(best.reward) - totalOf(worst.reward);
      if (!(margin > minGap)) break;
      const [chosen, rejected] = [best, worst].map(({ chains }) => chains.filter((chain) => learnCount(chain) > 0));
      const pair = { chosen: chosen!, rejected: rejected!, margin };
      if (!sameTokens(pair)) pairs.push(pair);
    }
    return pairs;
  });
}

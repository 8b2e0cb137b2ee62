/** Completions that somebody called desirable or not, for KTO. */
import { readPart, withSystem } from "../conversation/chat-layouts.ts";
import type { Message, MessageInput } from "../conversation/message.ts";
import { type ReadOptions, readEntries } from "../conversation/read-entries.ts";
import { StatesetError } from "../error.ts";
import type { ChatTokenizer } from "../policy/policy.ts";
import { createRandom, seedOf } from "../random.ts";
import type { LearntExample, SeenNumbers } from "../run/example-records.ts";
import { type CheckedConversation, readTemplateOptions, warnOfSpelt } from "../supervised/example.ts";
import { encodeSide, isPairChains, type PairChains, type PreferenceInput, readPair, sideTokens } from "./pair.ts";

/** Messages, or strings that stand for one message of the user (prompt) or the assistant (completion). */
export interface LabelledCompletion extends Pick<CheckedConversation, "tools" | "templateVariables"> {
  prompt: string | readonly MessageInput[];
  /** How the conversation went on; only assistant messages teach. */
  completion: string | readonly MessageInput[];
  /** True: desirable. */
  label: boolean;
  /** A system prompt, before the prompt. */
  system?: string | undefined;
}

export interface CheckedCompletion extends Omit<LabelledCompletion, "system"> {
  prompt: readonly Message[];
  completion: readonly Message[];
}

const hint = 'A labelled completion is a line {"prompt": […], "completion": […], "label": true}.';

/** Completions of a JSONL file: one `{"prompt", "completion", "label"}` a line; a preference pair counts as two of them. */
export async function loadLabelledCompletions(path: string, options: ReadOptions = {}): Promise<LabelledCompletion[]> {
  const completions: LabelledCompletion[] = [];
  for await (const some of readEntries(path, readLabelled, options, "loadLabelledCompletions()"))
    completions.push(...some);
  if (completions.length === 0) throw new StatesetError("INVALID_DATA", `${path} holds no completions.`, { hint });
  return completions;
}

/** Checks a labelled completion, or a pair, whose sides are one desirable and one undesirable completion. */
export function readLabelled(value: unknown, where: string): CheckedCompletion[] {
  const record = (typeof value === "object" && value !== null ? value : {}) as Record<string, unknown>;
  if (record.completion === undefined && record.chosen !== undefined) {
    const { prompt, chosen, rejected, margin: _, ...options } = readPair(record, where);
    return [
      { prompt, completion: chosen, label: true, ...options },
      { prompt, completion: rejected, label: false, ...options },
    ];
  }
  for (const key of ["prompt", "completion"]) {
    if (record[key] === undefined) throw new StatesetError("INVALID_DATA", `${where}: no "${key}".`, { hint });
  }
  // Anything else would silently count as one of the two.
  if (typeof record.label !== "boolean") {
    throw new StatesetError("INVALID_DATA", `${where}: "label" is not true or false.`, { hint });
  }
  const prompt = withSystem(record.system, readPart(record.prompt, "user", { where: `${where}: prompt` }), where);
  return [
    {
      prompt,
      completion: readPart(record.completion, "assistant", { where: `${where}: completion`, after: prompt }),
      label: record.label,
      ...readTemplateOptions(record, where),
    },
  ];
}

export interface EncodedCompletions {
  /** As `chosen` the completion itself, as `rejected` its prompt with the completion of another: none where there is no other, or it does not fit. */
  chains: PairChains[];
  labels: boolean[];
  sources: { index: number; completion: CheckedCompletion }[];
  /** Completions left out: longer than the context, or without an assistant token. */
  dropped: number;
  /** Completions that spell control tokens in plain text. */
  spelt: number;
}

export function encodeCompletions(
  tokenizer: ChatTokenizer,
  given: readonly (LabelledCompletion | PreferenceInput)[],
  { contextLength, seed, what }: { contextLength: number; seed: number; what: string },
): EncodedCompletions {
  const all = given.flatMap((one, i) => {
    if (!isPairChains(one)) return readLabelled(one, `${what}[${i}]`);
    throw new StatesetError("INVALID_DATA", `${what}[${i}] holds tokens, and KTO needs messages.`, {
      hint: "It scores each prompt with the completion of another, which recorded tokens do not tell apart. Use DPO for sampled pairs.",
    });
  });
  const spelt = new Set<string>();
  const result: EncodedCompletions = { chains: [], labels: [], sources: [], dropped: 0, spelt: 0 };
  const fits = (side: PairChains["chosen"]) => sideTokens(side) > 0 && side[0]!.tokens.length <= contextLength;
  for (const [index, completion] of all.entries()) {
    const found = new Set<string>();
    const own = [encodeSide(tokenizer, completion, completion.completion, found)];
    if (found.size > 0) result.spelt++;
    for (const token of found) spelt.add(token);
    if (!fits(own)) {
      result.dropped++;
      continue;
    }
    result.chains.push({ chosen: own, rejected: [] });
    result.labels.push(completion.label);
    result.sources.push({ index, completion });
  }
  if (result.chains.length < 2) {
    throw new StatesetError("INVALID_DATA", `KTO can use ${result.chains.length} of ${all.length} ${what}.`, {
      hint: "It needs two or more: each prompt is scored with the completion of another, to estimate the KL.",
    });
  }
  const used = result.sources.map(({ completion }) => completion);
  const partners = mismatch(
    used.map(({ prompt }) => JSON.stringify(prompt)),
    seed,
  );
  for (const [i, partner] of partners.entries()) {
    if (partner === undefined) continue;
    const other = [encodeSide(tokenizer, used[i]!, used[partner]!.completion, new Set())];
    if (fits(other)) result.chains[i]!.rejected = other;
  }
  warnOfSpelt(result.spelt, all.length, what, spelt);
  return result;
}

/**
 * For each prompt, the index of another's completion. Chosen once, so that the reference is asked once. Equal prompts stand together in a
 * shuffled order, and each takes what stands as far ahead as the largest such group is long: a completion of another prompt, wherever no
 * prompt has more than half of them. Where one has, some of its own get none: undefined.
 */
export function mismatch(prompts: readonly string[], seed: number): (number | undefined)[] {
  const groups = new Map<string, number[]>();
  const all = prompts.map((_, i) => i);
  for (const i of createRandom(seedOf(seed, "mismatch")).shuffled(all)) {
    const alike = groups.get(prompts[i]!);
    if (alike) alike.push(i);
    else groups.set(prompts[i]!, [i]);
  }
  const order = [...groups.values()].flat();
  const largest = [...groups.values()].reduce((most, { length }) => Math.max(most, length), 0);
  const partners = new Array<number | undefined>(order.length);
  for (const [at, i] of order.entries()) {
    const partner = order[(at + largest) % order.length]!;
    partners[i] = prompts[partner] === prompts[i] ? undefined : partner;
  }
  return partners;
}

/** A completion as it was learnt from, for the record of a run. */
export function completionExample(
  { chosen }: PairChains,
  { index, completion: { prompt, completion, label, tools, templateVariables } }: EncodedCompletions["sources"][number],
  learnt: SeenNumbers | undefined,
): LearntExample {
  const messages = [...prompt, ...completion];
  const side = label ? "chosen" : "rejected";
  return { id: `completion-${index}`, chains: chosen, side, messages, tools, templateVariables, learnt };
}

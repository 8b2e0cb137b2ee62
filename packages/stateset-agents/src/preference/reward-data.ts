import type { Message } from "../conversation/message.ts";
import type { TreeChain } from "../conversation/token-tree.ts";
import { StatesetError } from "../error.ts";
import type { ChatTokenizer } from "../policy/policy.ts";
import type { LearntExample } from "../run/example-records.ts";
import {
  type CheckedConversation,
  encodeConversation,
  readConversation,
  type SupervisedConversation,
} from "../supervised/example.ts";
import { type PreferenceInput, pairExamples, readPair } from "./pair.ts";

/** A conversation somebody called good or bad. It is learnt as a pair against an anchor whose reward is 0. */
export interface LabelledConversation extends SupervisedConversation {
  good: boolean;
}

export type RewardExample = PreferenceInput | LabelledConversation;

/** −log σ(r(better) − r(worse) − margin); a side that is missing has reward 0. */
export interface RewardUnit {
  better?: TreeChain;
  worse?: TreeChain;
  margin: number;
}

/** `where` names the example in errors. */
export function encodeRewardExample(
  tokenizer: ChatTokenizer,
  example: RewardExample,
  maxTokens: number,
  where: string,
): RewardUnit {
  const chain = (conversation: CheckedConversation) => rewardChain(tokenizer, conversation, maxTokens);
  if (typeof example !== "object" || example === null || "messages" in example) {
    const { good, ...conversation } = readConversation<LabelledConversation>(example, where);
    // A label under another name would silently mean "bad".
    if (typeof good !== "boolean") {
      throw new StatesetError("INVALID_DATA", `${where} has no label.`, { hint: "Set good to true or false." });
    }
    const side = chain(conversation);
    return good ? { better: side, margin: 0 } : { worse: side, margin: 0 };
  }
  const { prompt, chosen, rejected, margin = 0, ...options } = readPair(example, where);
  const side = (messages: readonly Message[]) => chain({ ...options, messages: [...prompt, ...messages] });
  return { better: side(chosen), worse: side(rejected), margin };
}

/** An example as it was learnt from, for the record of a run. */
export function rewardExamples(
  { better, worse }: RewardUnit,
  example: RewardExample,
  index: number,
  scores: { better: number; worse: number } | undefined,
): LearntExample[] {
  if (!("messages" in example)) {
    const sides = { chosen: [better!], rejected: [worse!] };
    const said = { chosen: { score: scores?.better }, rejected: { score: scores?.worse } };
    return pairExamples(sides, { index, pair: readPair(example, `examples[${index}]`) }, said);
  }
  const { messages, tools, templateVariables } = readConversation<LabelledConversation>(example, `examples[${index}]`);
  const side = better ? "chosen" : "rejected";
  const score = better ? scores?.better : scores?.worse;
  return [{ id: `example-${index}`, chains: [(better ?? worse)!], side, messages, tools, templateVariables, score }];
}

/** The whole conversation, as the reward model reads it. Beyond `maxTokens` the oldest tokens are left out. */
export function rewardChain(tokenizer: ChatTokenizer, conversation: CheckedConversation, maxTokens: number): TreeChain {
  const { tokens } = encodeConversation(tokenizer, conversation);
  if (tokens.length === 0) throw new StatesetError("INVALID_DATA", "A conversation to be rewarded has no messages.");
  const kept = tokens.subarray(Math.max(0, tokens.length - maxTokens));
  return { tokens: kept, learn: new Uint8Array(kept.length) };
}

export function unitChains({ better, worse }: RewardUnit): TreeChain[] {
  return [better, worse].filter((side) => side !== undefined);
}

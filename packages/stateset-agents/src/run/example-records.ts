/** What learners from data (SFT, DPO, reward models) learnt from, in the record of conversations. */
import { learnCount, learnPlaces } from "../conversation/learn-tokens.ts";
import type { Message } from "../conversation/message.ts";
import { type ConversationRecord, chatMessage } from "../conversation/record.ts";
import type { TemplateVariables } from "../conversation/template-variables.ts";
import type { ToolDefinition } from "../conversation/tool-definition.ts";
import type { LearntNumbers } from "../learning/learnt-tokens.ts";
import type { RecordedChain, RecordedConversation } from "./trajectories.ts";

/** One example, or one side of a pair, as it was learnt from. */
export interface LearntExample {
  id: string;
  /** With `learn` on what is imitated or compared. */
  chains: readonly RecordedChain[];
  /** None where tokens are all there is. */
  messages?: readonly Message[];
  tools?: readonly ToolDefinition[] | undefined;
  templateVariables?: TemplateVariables | undefined;
  /** The two sides of a pair have the same. */
  pair?: string;
  side?: "chosen" | "rejected";
  /** What the pass of the step said of its learn tokens, where that was kept. */
  learnt?: SeenNumbers | undefined;
  /** What a reward model said of it in that pass. */
  score?: number | undefined;
}

/** One number per learn token, over all chains, in order. [tokens] */
export interface SeenNumbers extends LearntNumbers {
  /** By the policy as the step found it. */
  logprobs?: Float32Array;
}

/**
 * What a loss without advantages pushes each token by, in the column they have: −∂(the example's own loss)/∂logprob, which of a policy
 * gradient is the advantage. `derivatives` are of the mean over `examples`.
 */
export function pushOf(derivatives: Float32Array, examples: number): Float32Array {
  return derivatives.map((derivative) => -derivative * examples);
}

/** For writeTrajectories(): the examples of a step. */
export function exampleRecords(step: number, examples: readonly LearntExample[]): RecordedConversation[] {
  return examples.map(({ id, chains, messages = [], tools, templateVariables, pair, side, learnt = {}, score }) => {
    const { logprobs, ...rest } = learnt;
    const record: ConversationRecord = {
      id,
      ...(pair !== undefined && { group: pair }),
      ...(side && { side }),
      step,
      messages: messages.map(chatMessage),
      ...(tools && { tools }),
      ...(templateVariables && { templateVariables }),
      ...(score !== undefined && { metadata: { score } }),
      chains: chains.map((chain) => ({ length: chain.tokens.length, learnLength: learnCount(chain) })),
    };
    return { record, chains: logprobs ? withLogprobs(chains, logprobs) : chains, learnt: rest };
  });
}

/** 0 where there is nothing to learn, as in what is sampled. */
function withLogprobs(chains: readonly RecordedChain[], known: Float32Array): RecordedChain[] {
  let at = 0;
  return chains.map((chain) => {
    const logprobs = new Float32Array(chain.tokens.length);
    for (const place of learnPlaces(chain)) logprobs[place] = known[at++]!;
    return { ...chain, logprobs };
  });
}

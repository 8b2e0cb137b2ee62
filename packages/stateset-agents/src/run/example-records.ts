/** What learners from data (SFT, DPO, reward models) learnt from, in the record of conversations. */
import { learnCount } from "../conversation/learn-tokens.ts";
import type { Message } from "../conversation/message.ts";
import { chatMessage } from "../conversation/record.ts";
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
  /** What a pass said of its learn tokens, where somebody kept it. */
  learnt?: LearntNumbers;
}

/** For writeTrajectories(): the examples of a step. */
export function exampleRecords(step: number, examples: readonly LearntExample[]): RecordedConversation[] {
  return examples.map(({ id, chains, messages = [], tools, templateVariables, pair, side, learnt }) => ({
    record: {
      id,
      ...(pair !== undefined && { group: pair }),
      ...(side && { side }),
      step,
      messages: messages.map(chatMessage),
      ...(tools && { tools }),
      ...(templateVariables && { templateVariables }),
      chains: chains.map((chain) => ({ length: chain.tokens.length, learnLength: learnCount(chain) })),
    },
    chains,
    ...(learnt && { learnt }),
  }));
}

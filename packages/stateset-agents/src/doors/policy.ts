/** `stateset-agents/policy`: models underneath agents. Opening, sampling and scoring them, tokens, weight files, engines. */
export { defaultLora } from "../agent/agent-options.ts";
export { ContextWindow, type ContextWindowOptions, type FitRequest } from "../agent/context-window.ts";
export {
  ChainBuilder,
  type ChainPrompt,
  type ChainState,
  type ReplyEnd,
  type SampledReply,
} from "../conversation/chain.ts";
export { buildTokenTree, type MergedChains, type TreeChain } from "../conversation/token-tree.ts";
export type { ChainStart, SeenPrompt, TokenChain } from "../conversation/trajectory.ts";
export { type ValidateOptions, validateMessages } from "../conversation/validate-messages.ts";
export type { EngineOptions } from "../policy/engines.ts";
export * from "../policy/index.ts";
export type { StubReplies } from "../policy/stub/stub-policy.ts";
export {
  type CheckedConversation,
  type EncodedConversation,
  encodeConversation,
  type SupervisedExample,
} from "../supervised/example.ts";

// The public surface. Grouped by folder; each line is one module.
export { Agent, type AgentContext } from "./agent/agent.ts";
export { type AgentOptions, defaultLora } from "./agent/agent-options.ts";
export { ContextWindow, type ContextWindowOptions } from "./agent/context-window.ts";
export { loadAgentFromCheckpoint } from "./agent/load-agent.ts";
export { ConversationMemory, type MemoryOptions } from "./agent/memory.ts";
export { type AgentReply, MultiTurnAgent } from "./agent/multi-turn-agent.ts";
export type {
  ConversationOptions,
  ConversationSession,
  Reply,
  ReplyOptions,
} from "./agent/session.ts";
export * from "./algorithm/index.ts";
export { ChainBuilder, type ChainPrompt, type ChainState, type SampledReply } from "./conversation/chain.ts";
export { toChatRecord } from "./conversation/chat-record.ts";
export type { Failure } from "./conversation/failure.ts";
export { type ChatRecord, readChats, writeChats } from "./conversation/jsonl.ts";
export type { Message, MessageInput, Role, ToolCall } from "./conversation/message.ts";
export { buildTokenTree, type MergedChains } from "./conversation/token-tree.ts";
export type { ToolDefinition } from "./conversation/tool-definition.ts";
export {
  type ChainStart,
  type Ended,
  isCut,
  type RewardResult,
  type TokenChain,
  type Trajectory,
  type TrajectoryGroup,
  type Turn,
} from "./conversation/trajectory.ts";
export { validateMessages } from "./conversation/validate-messages.ts";
export {
  ConversationEnvironment,
  type ConversationEnvironmentOptions,
  type EndCondition,
} from "./environment/conversation-environment.ts";
export {
  Environment,
  type EnvironmentState,
  type ResetOptions,
  type StepResult,
} from "./environment/environment.ts";
export { type GuardedEnvironment, runGuarded } from "./environment/guard.ts";
export { loadScenarios } from "./environment/load-scenarios.ts";
export type { ConversationScenarioInput } from "./environment/parse-scenario.ts";
export {
  conversationConfigs,
  customerService,
  heldOutConfigs,
  type PresetOptions,
  sales,
  technicalSupport,
} from "./environment/preset/index.ts";
export type { ConversationScenario, Scenario } from "./environment/scenario.ts";
export {
  type Task,
  type TaskCheck,
  TaskEnvironment,
  type TaskEnvironmentOptions,
} from "./environment/task-environment.ts";
export { type ErrorCode, errorCodes, StatesetError } from "./error.ts";
export * from "./evaluation/index.ts";
export * from "./learning/index.ts";
export * from "./policy/index.ts";
export * from "./preference/index.ts";
export { defineConfig, type ProjectConfig } from "./project/define-config.ts";
export { createRandom, type Random, seedOf } from "./random.ts";
export { type ConcisenessOptions, ConcisenessReward } from "./reward/builtin/conciseness.ts";
export { type CorrectnessOptions, CorrectnessReward } from "./reward/builtin/correctness.ts";
export {
  createCustomerServiceReward,
  createSalesReward,
  createTechnicalSupportReward,
} from "./reward/builtin/domains.ts";
export { EngagementReward } from "./reward/builtin/engagement.ts";
export { HelpfulnessReward } from "./reward/builtin/helpfulness.ts";
export { isPolite, PolitenessReward } from "./reward/builtin/politeness.ts";
export { SafetyReward } from "./reward/builtin/safety.ts";
export { SimilarityAwareReward } from "./reward/builtin/similarity-aware.ts";
export { type Criterion, type TaskCompletionOptions, TaskCompletionReward } from "./reward/builtin/task-completion.ts";
export { type CompositeOptions, CompositeReward, type OnFailure } from "./reward/composite-reward.ts";
export { type RewardFn, type RewardValue, rewardFunction } from "./reward/define-reward.ts";
export * from "./reward/judge/index.ts";
export {
  type Aggregation,
  type MultiObjectiveOptions,
  MultiObjectiveReward,
  type Objective,
} from "./reward/multi-objective-reward.ts";
export {
  type RewardContext,
  RewardFunction,
  type RewardInput,
  type RewardOptions,
  type ScoreTurns,
  type TurnScore,
} from "./reward/reward-function.ts";
export { type ExactMatchOptions, ExactMatchReward } from "./reward/verifier/exact-match.ts";
export { type NumericAnswerOptions, NumericAnswerReward } from "./reward/verifier/numeric-answer.ts";
export { type PatternOptions, PatternReward } from "./reward/verifier/pattern.ts";
export { type ToolCallOptions, ToolCallReward } from "./reward/verifier/tool-call.ts";
export * from "./rollout/index.ts";
export * from "./run/index.ts";
export * from "./supervised/index.ts";
export * from "./telemetry/index.ts";
export * from "./training/diagnostics/index.ts";
export * from "./training/index.ts";

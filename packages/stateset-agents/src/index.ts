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
  DrawSample,
  Reply,
  ReplyOptions,
} from "./agent/session.ts";
export * from "./algorithm/index.ts";
export { ChainBuilder } from "./conversation/chain.ts";
export { type ChatRecord, readChats, writeChats } from "./conversation/jsonl.ts";
export type { Message, Role, ToolCall, ToolDefinition } from "./conversation/message.ts";
export { buildTokenTree, type MergedChains } from "./conversation/token-tree.ts";
export type { RewardResult, TokenChain, Trajectory, TrajectoryGroup, Turn } from "./conversation/trajectory.ts";
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
export { type EnvironmentFailure, type GuardedEnvironment, runGuarded } from "./environment/guard.ts";
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
export * from "./policy/index.ts";
export * from "./preference/index.ts";
export { createRandom, type Random, seedOf } from "./random.ts";
export * from "./reward/judge/index.ts";
export { type RewardContext, RewardFunction, type RewardInput, type RewardOptions } from "./reward/reward-function.ts";
export * from "./supervised/index.ts";

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
export type { Algorithm } from "./algorithm/algorithm.ts";
export { ChainBuilder } from "./conversation/chain.ts";
export { type ChatRecord, readChats, writeChats } from "./conversation/jsonl.ts";
export type { Message, Role, ToolCall, ToolDefinition } from "./conversation/message.ts";
export { buildTokenTree, type MergedChains } from "./conversation/token-tree.ts";
export type { RewardResult, TokenChain, Trajectory, TrajectoryGroup, Turn } from "./conversation/trajectory.ts";
export { validateMessages } from "./conversation/validate-messages.ts";
export {
  Environment,
  type EnvironmentState,
  type ResetOptions,
  type StepResult,
} from "./environment/environment.ts";
export { type EnvironmentFailure, type GuardedEnvironment, runGuarded } from "./environment/guard.ts";
export type { ConversationScenario, Scenario } from "./environment/scenario.ts";
export { type ErrorCode, errorCodes, StatesetError } from "./error.ts";
export { createRandom, type Random, seedOf } from "./random.ts";
export { type RewardContext, RewardFunction, type RewardInput, type RewardOptions } from "./reward/reward-function.ts";

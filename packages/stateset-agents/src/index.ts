/** The main door, `stateset-agents`: what a user writes in an afternoon, and the types in its signatures. The others are in doors/. */
export { Agent, type AgentContext, type HookContext } from "./agent/agent.ts";
export type { AgentOptions, ResolvedAgentOptions } from "./agent/agent-options.ts";
export type { ContextWindowOptions } from "./agent/context-window.ts";
export { ConversationMemory, type MemoryOptions, type MemoryTurn, type Summarize } from "./agent/memory.ts";
export { type AgentReply, MultiTurnAgent } from "./agent/multi-turn-agent.ts";
export type { ConversationOptions, ConversationSession, Reply, ReplyOptions } from "./agent/session.ts";
export type { ChatRecord } from "./conversation/chat-layouts.ts";
export { readChats, readConversations, writeChats } from "./conversation/jsonl.ts";
export type { Message, MessageInput, Role, ToolCall } from "./conversation/message.ts";
export type { ReadOptions, SkippedLines } from "./conversation/read-entries.ts";
export { type ConversationRecord, toConversationRecord } from "./conversation/record.ts";
export type { ToolDefinition } from "./conversation/tool-definition.ts";
export type { Ended, RewardResult, TokenChain, Trajectory, TrajectoryGroup, Turn } from "./conversation/trajectory.ts";
export {
  ConversationEnvironment,
  type ConversationEnvironmentOptions,
  type EndCondition,
} from "./environment/conversation-environment.ts";
export {
  Environment,
  type EnvironmentState,
  type ResetOptions,
  // `StepOptions` is the policy's: see stateset-agents/policy.
  type StepOptions as EnvironmentStepOptions,
  type StepResult,
} from "./environment/environment.ts";
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
export { type ErrorCode, type ErrorDetails, errorCodes, StatesetError } from "./error.ts";
export {
  type Comparison,
  compare,
  type EvaluateOptions,
  type Evaluation,
  evaluate,
  type ScenarioScore,
} from "./evaluation/evaluate.ts";
export { type HeldOut, splitHeldOut } from "./evaluation/split.ts";
export type { CapturedCall } from "./harness/captured-call.ts";
export { defineHarness, type Harness, type HarnessOptions, type HarnessRun } from "./harness/harness.ts";
export { type LearnFromOptions, type LearnFromResult, learnFrom } from "./learning/learn-from.ts";
export type { Policy, Reference, Sampling } from "./policy/policy.ts";
export { type LabelledCompletion, loadLabelledCompletions } from "./preference/labelled.ts";
export {
  loadPreferencePairs,
  type PairChains,
  type PairsFromGroupOptions,
  type PreferenceInput,
  type PreferencePair,
  pairsFromGroups,
} from "./preference/pair.ts";
export type { KtoTrainingResult } from "./preference/train-kto.ts";
export {
  evaluatePreference,
  type KtoTrainingOptions,
  type PreferenceEvaluation,
  type PreferenceOptions,
  type PreferenceResult,
  trainPreference,
} from "./preference/train-preference.ts";
export { defineConfig, type ProjectConfig } from "./project/define-config.ts";
export { createRandom, type Random, seedOf } from "./random.ts";
export { type ConcisenessOptions, ConcisenessReward } from "./reward/builtin/conciseness.ts";
export { HelpfulnessReward } from "./reward/builtin/helpfulness.ts";
export { PolitenessReward } from "./reward/builtin/politeness.ts";
export { type CompositeOptions, CompositeReward } from "./reward/composite-reward.ts";
export { type RewardFn, type RewardValue, rewardFunction } from "./reward/define-reward.ts";
export {
  type RewardContext,
  RewardFunction,
  type RewardInput,
  type RewardOptions,
  type ScoreTurns,
  type TurnScore,
} from "./reward/reward-function.ts";
export type { RunCallbacks } from "./run/callbacks.ts";
export { loadAgentFromCheckpoint } from "./run/load-agent.ts";
export type { RunSummary } from "./run/summary.ts";
export { chainsOf, type Harvest, type HarvestOptions, harvestBestOfN } from "./supervised/best-of-n.ts";
export type { SupervisedConversation, SupervisedExample } from "./supervised/example.ts";
export {
  evaluateSupervised,
  type SupervisedEvaluation,
  type SupervisedOptions,
  type SupervisedResult,
  trainSupervised,
} from "./supervised/train-supervised.ts";
export type { TrainingCallbacks } from "./training/callbacks.ts";
export type { TrainingOptions } from "./training/config.ts";
export { configForTask, type TaskName } from "./training/profiles.ts";
export { type TrainResult, train } from "./training/train.ts";
export type { TrainOptions } from "./training/train-options.ts";

/** `stateset-agents/rewards`: everything that scores a conversation. Built-ins, verifiers, judges, learned rewards, composition. */
export { isCut, type RewardResult } from "../conversation/trajectory.ts";
export type { Clock, FailureKind } from "../endpoint/judge.ts";
export type { OpenPolicyOptions } from "../policy/open-policy.ts";
export type { LoraOptions } from "../policy/policy.ts";
export {
  loadNeuralReward,
  NeuralReward,
  type NeuralRewardOptions,
  type RewardModelInfo,
} from "../preference/neural-reward.ts";
export {
  type NeuralRewardResult,
  NeuralRewardTrainer,
  type NeuralRewardTrainerOptions,
  type RewardModelEvaluation,
} from "../preference/neural-reward-trainer.ts";
export type { LabelledConversation, RewardExample } from "../preference/reward-data.ts";
export { type ConcisenessOptions, ConcisenessReward } from "../reward/builtin/conciseness.ts";
export { type CorrectnessOptions, CorrectnessReward } from "../reward/builtin/correctness.ts";
export {
  createCustomerServiceReward,
  createSalesReward,
  createTechnicalSupportReward,
} from "../reward/builtin/domains.ts";
export { EngagementReward } from "../reward/builtin/engagement.ts";
export { EnvironmentReward } from "../reward/builtin/environment.ts";
export { HelpfulnessReward } from "../reward/builtin/helpfulness.ts";
export { isPolite, PolitenessReward } from "../reward/builtin/politeness.ts";
export { SafetyReward } from "../reward/builtin/safety.ts";
export { SimilarityAwareReward } from "../reward/builtin/similarity-aware.ts";
export { type Criterion, type TaskCompletionOptions, TaskCompletionReward } from "../reward/builtin/task-completion.ts";
export { CachedReward, type CachedRewardOptions, cachedReward } from "../reward/cached-reward.ts";
export { type CompositeOptions, CompositeReward, type OnFailure } from "../reward/composite-reward.ts";
export { type RewardFn, type RewardValue, rewardFunction } from "../reward/define-reward.ts";
export { type ExplainedTurn, type Explanation, explain } from "../reward/explain.ts";
export * from "../reward/judge/index.ts";
export {
  type Aggregation,
  type MultiObjectiveOptions,
  MultiObjectiveReward,
  type Objective,
} from "../reward/multi-objective-reward.ts";
export {
  type PartNote,
  type RewardContext,
  RewardFunction,
  type RewardInput,
  type RewardOptions,
} from "../reward/reward-function.ts";
export { type StateCheck, StateReward, type StateRewardOptions } from "../reward/state-reward.ts";
export { type ToolUseOptions, ToolUseReward } from "../reward/tool-use-reward.ts";
export { type ExactMatchOptions, ExactMatchReward } from "../reward/verifier/exact-match.ts";
export { type NumericAnswerOptions, NumericAnswerReward } from "../reward/verifier/numeric-answer.ts";
export { type PatternOptions, PatternReward } from "../reward/verifier/pattern.ts";
export { type ToolCallOptions, ToolCallReward } from "../reward/verifier/tool-call.ts";
export type { JsonSchema } from "../tool/schema/compile-schema.ts";

/**
 * `stateset-agents/compat`: names for code that comes from elsewhere.
 * Those of the Python system are here to stay. What the one door of the first days offered works from here for one release, with a warning.
 */

import { toConversationRecord } from "../conversation/record.ts";
import * as algorithmsDoor from "./algorithms.ts";
import { movedTo, renamed } from "./moved.ts";
import * as policyDoor from "./policy.ts";
import * as rewardsDoor from "./rewards.ts";
import * as telemetryDoor from "./telemetry.ts";
import * as testingDoor from "./testing.ts";

export { GSPOConfig, type GspoOptions, type GspoTrainingConfig } from "../algorithm/gspo-config.ts";
export { CheckpointCallback, type CheckpointCallbackOptions, EarlyStoppingCallback } from "../compat/callbacks.ts";
export {
  CustomerServiceAgent,
  CustomerServiceEnvironment,
  CustomerServiceReward,
  SalesAssistantReward,
  TechnicalSupportReward,
} from "../compat/customer-service.ts";
export { DistributedTrainer, type DistributedTrainerOptions } from "../compat/distributed-trainer.ts";
// So that code written for the one door of the first days needs a change of that word alone.
export * from "../index.ts";
export { trainWithGSPO } from "../training/gspo.ts";
export { fromPythonConfig, type MappedConfig } from "../training/python-config.ts";
export type { TrainParts } from "../training/train-options.ts";
export { MultiTurnGRPOTrainer } from "../training/trainer.ts";
export type {
  AdvantageFunction,
  Advantages,
  Algorithm,
  AlgorithmChoice,
  AlgorithmConfig,
  AlgorithmDefinition,
  AlgorithmName,
  BatchCounts,
  GaeOptions,
  GradientCheck,
  GradientCheckOptions,
  GradientMismatch,
  KlEstimator,
  LossFunction,
  LossResult,
  LossSequence,
  MetricSums,
  Needs,
  ProfileName,
  ResolvedAlgorithmConfig,
  RolloutOptions,
  Scale,
  Sequence,
  TokenLossOptions,
  TokenPoint,
  TrainingConfig,
  TrustRegion,
  ValueFitOptions,
  ValueFunctionOptions,
} from "./algorithms.ts";
export type {
  Capabilities,
  ChainPrompt,
  ChainStart,
  ChainState,
  ChatTokenizer,
  CheckedConversation,
  Derivatives,
  DownloadProgress,
  Dtype,
  Engine,
  EngineName,
  Extension,
  Forward,
  ForwardOptions,
  LoadedTokenizer,
  LoadTokenizerOptions,
  LoraOptions,
  MemoryPlan,
  MergedChains,
  ModelInfo,
  OpenPolicyOptions,
  PlanOptions,
  ReadOptions,
  ReferenceOf,
  RenderOptions,
  ResolveOptions,
  Sample,
  SampledReply,
  SampleOptions,
  SampleRequest,
  Sampler,
  SamplerStats,
  SampleToken,
  StepOptions,
  StepReport,
  StubReplies,
  TemplateVariables,
  TensorToWrite,
  TextStream,
  TokenLogprob,
  TokenSegment,
  TokenTree,
  Trainer,
  Version,
  WeightInfo,
  Weights,
  WeightsChange,
} from "./policy.ts";
export type {
  Aggregation,
  CorrectnessOptions,
  Criterion,
  ExactMatchOptions,
  Judge,
  JudgeModel,
  JudgeOptions,
  JudgeReply,
  JudgeRequest,
  JudgeRewardOptions,
  JudgeStats,
  LabelledConversation,
  MultiObjectiveOptions,
  NeuralRewardOptions,
  NeuralRewardResult,
  NeuralRewardTrainerOptions,
  NumericAnswerOptions,
  Objective,
  OnFailure,
  OpenAIJudgeModelOptions,
  PatternOptions,
  Question,
  RewardExample,
  RewardModelEvaluation,
  TaskCompletionOptions,
  ToolCallOptions,
} from "./rewards.ts";
export type {
  Adjustment,
  Alert,
  AlertOptions,
  AutoAdjust,
  AutoAdjustOptions,
  DataEvaluation,
  DiagnosticsOptions,
  EarlyStoppingOptions,
  Estimate,
  EstimateOptions as BootstrapOptions,
  EvaluationResult,
  Failure,
  HealthWatch,
  LearnerKind,
  MonitorState,
  PairedResult,
  RewardEvaluation,
  RolloutReport,
  RunConfig,
  RunEnd,
  RunEvent,
  RunOutcome,
  RunStart,
  RunWarning,
  SpanTracer,
  StepEnd,
  StepMetrics,
  StepObservation,
  StepSignals,
  StepTiming,
  StopRun,
  TraceOptions,
  TrackedRun,
  Tracker,
  TrainingControls,
  TrainingStart,
  TrainingStepEnd,
  UpdateEvent,
  Verdict,
  VerdictKind,
  WarningKind,
} from "./telemetry.ts";
export type { GuardedEnvironment, StubOptions, StubPrompt } from "./testing.ts";

export const {
  buildTokenTree,
  ChainBuilder,
  ContextWindow,
  defaultLora,
  defaultSampling,
  encodeConversation,
  engines,
  isShaped,
  loadChatTokenizer,
  openPolicy,
  openWeights,
  resolveModel,
  validateMessages,
  writeSafetensors,
} = movedTo("stateset-agents/policy", policyDoor);
export type ChainBuilder = policyDoor.ChainBuilder;
export type ContextWindow = policyDoor.ContextWindow;

export const {
  algorithmDefaults,
  algorithmNames,
  algorithmSchema,
  checkGradient,
  conjugateGradient,
  createAlgorithm,
  defaultGroupSize,
  defineAlgorithm,
  finiteDifferenceFisher,
  gaeAdvantages,
  groupAdvantages,
  leaveOneOutAdvantages,
  lengthAdaptiveAdvantages,
  multiRewardAdvantages,
  profiles,
  reinforcePlusPlusAdvantages,
  resolveConfig,
  tokenLoss,
  tokenRewards,
  trainingConfigSchema,
  trustRegionStep,
  turnAdvantages,
  ValueFunction,
} = movedTo("stateset-agents/algorithms", algorithmsDoor);
export type ValueFunction = algorithmsDoor.ValueFunction;

export const {
  CorrectnessReward,
  createCustomerServiceReward,
  createJudge,
  createSalesReward,
  createTechnicalSupportReward,
  EngagementReward,
  ExactMatchReward,
  isCut,
  isPolite,
  JudgeModelError,
  JudgeReward,
  judgeReward,
  loadNeuralReward,
  MultiObjectiveReward,
  NeuralReward,
  NeuralRewardTrainer,
  NumericAnswerReward,
  openaiJudgeModel,
  PatternReward,
  policyJudgeModel,
  SafetyReward,
  SimilarityAwareReward,
  TaskCompletionReward,
  ToolCallReward,
} = movedTo("stateset-agents/rewards", rewardsDoor);
export type CorrectnessReward = rewardsDoor.CorrectnessReward;
export type EngagementReward = rewardsDoor.EngagementReward;
export type ExactMatchReward = rewardsDoor.ExactMatchReward;
export type JudgeModelError = rewardsDoor.JudgeModelError;
export type JudgeReward = rewardsDoor.JudgeReward;
export type MultiObjectiveReward = rewardsDoor.MultiObjectiveReward;
export type NeuralReward = rewardsDoor.NeuralReward;
export type NeuralRewardTrainer = rewardsDoor.NeuralRewardTrainer;
export type NumericAnswerReward = rewardsDoor.NumericAnswerReward;
export type PatternReward = rewardsDoor.PatternReward;
export type SafetyReward = rewardsDoor.SafetyReward;
export type SimilarityAwareReward = rewardsDoor.SimilarityAwareReward;
export type TaskCompletionReward = rewardsDoor.TaskCompletionReward;
export type ToolCallReward = rewardsDoor.ToolCallReward;

export const {
  alertWith,
  autoAdjust,
  consoleTracker,
  DiagnosticsMonitor,
  EarlyStopping,
  fileTracker,
  pairedTest,
  readSignals,
  tensorBoardTracker,
  traceWith,
  wandbTracker,
  watchHealth,
} = movedTo("stateset-agents/telemetry", telemetryDoor);
export type DiagnosticsMonitor = telemetryDoor.DiagnosticsMonitor;
export type EarlyStopping = telemetryDoor.EarlyStopping;

export const bootstrapMean = renamed("bootstrapMean", "estimateMean", telemetryDoor.estimateMean);
export const bootstrapGroups = renamed("bootstrapGroups", "estimateGroups", telemetryDoor.estimateGroups);
export const toChatRecord = renamed("toChatRecord", "toConversationRecord", toConversationRecord);

export const { createStubPolicy, runGuarded } = movedTo("stateset-agents/testing", testingDoor);

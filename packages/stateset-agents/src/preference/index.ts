export { loadNeuralReward, NeuralReward, type NeuralRewardOptions } from "./neural-reward.ts";
export {
  type NeuralRewardResult,
  NeuralRewardTrainer,
  type NeuralRewardTrainerOptions,
  type RewardModelEvaluation,
} from "./neural-reward-trainer.ts";
export {
  loadPreferencePairs,
  type PairChains,
  type PreferenceInput,
  type PreferencePair,
  pairsFromGroups,
} from "./pair.ts";
export type { LabelledConversation, RewardExample } from "./reward-data.ts";
export {
  evaluatePreference,
  type PreferenceEvaluation,
  type PreferenceOptions,
  type PreferenceResult,
  trainPreference,
} from "./train-preference.ts";

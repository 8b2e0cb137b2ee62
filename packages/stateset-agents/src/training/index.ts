export type { TrainingCallbacks, TrainingStart, TrainingStepEnd } from "./callbacks.ts";
export { resolveConfig, type TrainingConfig, type TrainingOptions, trainingConfigSchema } from "./config.ts";
export type { TrainingControls } from "./controls.ts";
export { trainWithGSPO } from "./gspo.ts";
export { configForTask, type ProfileName, profiles, type TaskName } from "./profiles.ts";
export { fromPythonConfig, type MappedConfig } from "./python-config.ts";
export { type TrainResult, train } from "./train.ts";
export type { TrainOptions, TrainParts } from "./train-options.ts";
export { MultiTurnGRPOTrainer } from "./trainer.ts";

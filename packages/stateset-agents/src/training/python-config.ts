/**
 * Configurations written for the Python system: snake_case keys and their meaning here.
 * What belongs to the model goes to the agent, what belongs to the algorithm to the algorithm.
 */
import type { AgentOptions } from "../agent/agent-options.ts";
import { StatesetError } from "../error.ts";
import { didYouMean } from "../suggest.ts";
import type { TrainingOptions } from "./config.ts";
import { rulesOverSeveralKeys } from "./python-rules.ts";

export interface MappedConfig {
  agent: AgentOptions;
  training: TrainingOptions;
  /** Options of the algorithm, `algorithm` among them when it was named. */
  algorithm: Record<string, unknown>;
  profile: string | undefined;
  savePath: string | undefined;
  /** Keys that mean nothing here, each with the reason; to be shown to the user. */
  ignored: { key: string; reason: string }[];
}

type Target = (config: MappedConfig, value: unknown) => void;
type Section = "evaluation" | "checkpoint" | "sampling" | "kl" | "timeouts";

const training =
  (key: keyof TrainingOptions): Target =>
  (config, value) =>
    Object.assign(config.training, { [key]: value });
const section =
  (name: Section, key: string): Target =>
  (config, value) =>
    Object.assign(config.training, { [name]: { ...config.training[name], [key]: value } });
const algorithm =
  (key: string): Target =>
  (config, value) =>
    Object.assign(config.algorithm, { [key]: value });
const agent =
  (key: keyof AgentOptions): Target =>
  (config, value) =>
    Object.assign(config.agent, { [key]: value });
const sampling =
  (key: string): Target =>
  (config, value) =>
    Object.assign(config.agent, { sampling: { ...config.agent.sampling, [key]: value } });
const lora =
  (key: string): Target =>
  (config, value) =>
    Object.assign(config.agent, {
      lora: { ...(typeof config.agent.lora === "object" && config.agent.lora), [key]: value },
    });
const ignored =
  (reason: string): Target =>
  (config, _) =>
    void config.ignored.push({ key: "", reason });

const precision = ignored("The engine computes in float32.");
const clipRange: Target = (config, value) =>
  Object.assign(config.algorithm, { epsilonLow: value, epsilonHigh: value, ...config.algorithm });

const targets: Record<string, Target> = {
  num_episodes: training("episodes"),
  num_iterations: training("updatesPerRollout"),
  num_outer_iterations: training("steps"),
  max_steps: training("steps"),
  seed: training("seed"),
  num_generations: training("groupSize"),
  learning_rate: training("learningRate"),
  value_learning_rate: training("valueLearningRate"),
  lr_scheduler_type: (config, value) =>
    training("schedule")(config, value === "constant_with_warmup" ? "constant" : value),
  warmup_ratio: training("warmup"),
  weight_decay: training("weightDecay"),
  adam_beta1: training("beta1"),
  adam_beta2: training("beta2"),
  adam_epsilon: training("epsilon"),
  max_grad_norm: training("clipNorm"),
  entropy_coef: training("entropyBonus"),
  max_turns: training("maxTurns"),
  gradient_checkpointing: training("recompute"),
  mask_truncated_completions: training("maskTruncated"),
  save_steps: section("checkpoint", "every"),
  save_total_limit: section("checkpoint", "keep"),
  eval_steps: section("evaluation", "every"),
  early_stopping_patience: (config, value) => Object.assign(config.training, { earlyStopping: { patience: value } }),
  max_completion_length: section("sampling", "maxTokens"),
  temperature: section("sampling", "temperature"),
  ref_model_sync_steps: section("kl", "renewEvery"),
  algorithm: algorithm("algorithm"),
  beta: algorithm("beta"),
  kl_coef: algorithm("beta"),
  epsilon: clipRange,
  clip_range: clipRange,
  clip_ratio: clipRange,
  clip_range_left: algorithm("epsilonLow"),
  clip_range_right: algorithm("epsilonHigh"),
  epsilon_low: algorithm("epsilonLow"),
  epsilon_high: algorithm("epsilonHigh"),
  gamma: algorithm("gamma"),
  gae_lambda: algorithm("lambda"),
  model_name: agent("model"),
  model_name_or_path: agent("model"),
  system_prompt: agent("systemPrompt"),
  enable_reasoning: agent("reasoning"),
  max_new_tokens: sampling("maxTokens"),
  top_p: sampling("topP"),
  top_k: sampling("topK"),
  repetition_penalty: sampling("repetitionPenalty"),
  use_lora: (config, value) => {
    if (value === false) config.agent.lora = false;
    else if (typeof config.agent.lora !== "object") config.agent.lora = true;
  },
  lora_r: lora("rank"),
  lora_alpha: lora("alpha"),
  lora_dropout: lora("dropout"),
  lora_target_modules: lora("targetModules"),
  profile: (config, value) => {
    config.profile = String(value);
  },
  save_path: (config, value) => {
    config.savePath = String(value);
  },
  output_dir: (config, value) => {
    config.savePath = String(value);
  },
  bf16: precision,
  fp16: precision,
  logging_steps: ignored("Every step is logged."),
  max_prompt_length: ignored("Prompts are limited by the model's context; see the agent's contextWindow."),
  report_to: ignored("Trackers are given to train() or by the CLI's --tracker."),
  wandb_project: ignored("Trackers are given to train() or by the CLI's --tracker."),
  attn_implementation: ignored("The engine has one attention."),
  torch_dtype: precision,
};

/** The Python names that are understood, for documentation and for suggestions. */
export const pythonConfigKeys: readonly string[] = [
  ...Object.keys(targets),
  ...rulesOverSeveralKeys.flatMap(({ keys }) => keys),
];

/**
 * Maps a flat snake_case record by what its keys mean there. Unknown keys are an error that names the nearest known one; a key
 * whose meaning cannot be had here is an error that says what to give instead.
 */
export function fromPythonConfig(record: Readonly<Record<string, unknown>>): MappedConfig {
  const config: MappedConfig = {
    agent: {},
    training: {},
    algorithm: {},
    profile: undefined,
    savePath: undefined,
    ignored: [],
  };
  // A max_steps of -1 is TRL's way of not giving it.
  const given = Object.fromEntries(
    Object.entries(record).filter(
      ([key, value]) => value !== undefined && value !== null && !(key === "max_steps" && Number(value) <= 0),
    ),
  );
  for (const [key, value] of Object.entries(record)) {
    if (!pythonConfigKeys.includes(key)) {
      throw new StatesetError("INVALID_OPTION", `Unknown option "${key}" in the configuration.`, {
        hint: didYouMean(key, pythonConfigKeys),
      });
    }
    const target = Object.hasOwn(targets, key) ? targets[key] : undefined;
    if (!target || !Object.hasOwn(given, key)) continue;
    target(config, value);
    const note = config.ignored.at(-1);
    if (note && note.key === "") note.key = key;
  }
  if (record.use_lora === false) delete config.agent.lora;
  for (const { apply } of rulesOverSeveralKeys) apply(given, config);
  return config;
}

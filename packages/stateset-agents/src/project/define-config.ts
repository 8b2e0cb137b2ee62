import type { Agent } from "../agent/agent.ts";
import type { AgentOptions } from "../agent/agent-options.ts";
import type { AlgorithmChoice } from "../algorithm/algorithm-choice.ts";
import type { RewardFunction } from "../reward/reward-function.ts";
import type { Tracker } from "../run/tracker.ts";
import type { AlertOptions } from "../telemetry/alerts.ts";
import type { AutoAdjustOptions } from "../training/auto-adjust.ts";
import type { TrainingOptions } from "../training/config.ts";
import type { ProfileName } from "../training/profiles.ts";
import type { EnvironmentChoice, HeldOutChoice } from "./environments.ts";
import type { TrackerName } from "./names.ts";
import type { RewardParts } from "./rewards.ts";
import type {
  BestOfNSection,
  PreferenceSection,
  RewardModelSection,
  ServeSection,
  SupervisedSection,
} from "./sections.ts";

/** What `stateset.config.ts` exports: everything a run needs. Paths are relative to the configuration's file. */
export interface ProjectConfig {
  /** An agent, or the options of one. Left out: the starter model. */
  agent?: Agent | AgentOptions;
  /**
   * An environment, a preset, a domain, scenarios or tasks (a list, or a .jsonl, .json or .yaml file), or the path of a file whose default
   * export is an Environment: `./environment.ts`. Learning from data (sft, dpo, reward-model) needs none.
   */
  environment?: EnvironmentChoice;
  /**
   * Scenarios that training never sees (a list, or a file of them), played in the environment above, or an environment of their own.
   * Left out: those of the preset or the domain, if there is one.
   */
  heldOut?: HeldOutChoice;
  /**
   * A reward; named ones with their weights or options, `{ politeness: 0.6, numericAnswer: { weight: 0.4, tolerance: 0.01 } }`; or the path
   * of a file whose default export is a RewardFunction or a function: `./reward.ts`.
   */
  reward?: RewardFunction | RewardParts | string;
  profile?: ProfileName;
  /** The name of a run of `train`; its folder is `runs/<name>` where the command is given. */
  name?: string;
  /** A folder that `train` also writes the trained agent to. */
  savePath?: string;
  training?: TrainingOptions & AlgorithmChoice;
  /** For the commands of these names: `sft`, `dpo`, `reward-model`, `best-of-n`. */
  sft?: SupervisedSection;
  dpo?: PreferenceSection;
  rewardModel?: RewardModelSection;
  bestOfN?: BestOfNSection;
  /** For the command `serve`. */
  serve?: ServeSection;
  trackers?: readonly (Tracker | TrackerName)[];
  alerts?: AlertOptions;
  /** Act on the health of the run: learning rate, KL coefficient, temperature, scenario mix. */
  autoAdjust?: boolean | AutoAdjustOptions;
}

/**
 * Types for a configuration file.
 *
 * @example
 * export default defineConfig({ environment: { preset: "customerService" }, reward: { politeness: 1 }, training: { steps: 40 } });
 */
export function defineConfig(config: ProjectConfig): ProjectConfig {
  return config;
}

import type { Agent } from "../agent/agent.ts";
import type { AgentOptions } from "../agent/agent-options.ts";
import type { AlgorithmChoice } from "../algorithm/algorithm-choice.ts";
import type { ConversationEnvironmentOptions } from "../environment/conversation-environment.ts";
import type { Environment } from "../environment/environment.ts";
import type { Scenario } from "../environment/scenario.ts";
import type { RewardFunction } from "../reward/reward-function.ts";
import type { Tracker } from "../run/tracker.ts";
import type { AlertOptions } from "../telemetry/alerts.ts";
import type { AutoAdjustOptions } from "../training/auto-adjust.ts";
import type { TrainingOptions } from "../training/config.ts";
import type { ProfileName } from "../training/profiles.ts";
import type { PresetName, RewardWeights, TrackerName } from "./names.ts";

/** What `stateset.config.ts` exports: everything a run needs. */
export interface ProjectConfig {
  /** An agent, or the options of one. Left out: the starter model. */
  agent?: Agent | AgentOptions;
  /** An environment, a preset, or scenarios (a list, or a .jsonl, .json or .yaml file beside the configuration). */
  environment:
    | Environment
    | (Omit<ConversationEnvironmentOptions, "scenarios"> &
        ({ preset: PresetName } | { scenarios: ConversationEnvironmentOptions["scenarios"] | string }));
  /**
   * Scenarios that training never sees (a list, or a file of them), played in the environment above, or an environment of their own.
   * Left out: those of the preset, if there is one.
   */
  heldOut?: Environment | readonly Scenario[] | string;
  /** A reward, or built-in ones by name with their weights: `{ politeness: 0.6, conciseness: 0.4 }`. */
  reward?: RewardFunction | RewardWeights;
  profile?: ProfileName;
  /** The run's name; its folder is `runs/<name>`. */
  name?: string;
  training?: TrainingOptions & AlgorithmChoice;
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

import { resolve } from "node:path";
import { Agent } from "../agent/agent.ts";
import type { AgentOptions } from "../agent/agent-options.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import {
  ConversationEnvironment,
  type ConversationEnvironmentOptions,
} from "../environment/conversation-environment.ts";
import { Environment } from "../environment/environment.ts";
import { loadScenarios } from "../environment/load-scenarios.ts";
import { customerService, sales, technicalSupport } from "../environment/preset/index.ts";
import type { Scenario } from "../environment/scenario.ts";
import { StatesetError } from "../error.ts";
import type { Sampling } from "../policy/policy.ts";
import { RewardFunction } from "../reward/reward-function.ts";
import type { Tracker } from "../run/tracker.ts";
import { didYouMean } from "../suggest.ts";
import type { ProjectConfig } from "./define-config.ts";
import type { LoadedProject } from "./load-project.ts";
import { presetNamed, rewardFromWeights, trackerNamed } from "./names.ts";
import { projectKeys } from "./plain-config.ts";

/** A configuration with everything it names built. */
export interface Project {
  agent: Agent;
  environment: Environment;
  heldOut: Environment | readonly Scenario[] | undefined;
  reward: RewardFunction | undefined;
  trackers: Tracker[];
  config: ProjectConfig;
  /** The configuration's file, for messages; undefined for the built-in project. */
  file: string | undefined;
}

/** What the command line changes about the agent. */
export interface AgentOverrides {
  model?: string;
  threads?: number;
  stub?: boolean;
  sampling?: Pick<Partial<Sampling>, "temperature" | "maxTokens">;
}

/** The project of `--stub` without a configuration: support conversations, politeness and conciseness. */
export const defaultConfig: ProjectConfig = {
  environment: { preset: "customerService" },
  reward: { politeness: 0.5, conciseness: 0.5 },
  training: { steps: 3, groupsPerStep: 2, groupSize: 4 },
};

const presets = { customerService, technicalSupport, sales };

export async function buildProject(
  loaded: Omit<LoadedProject, "file" | "notes"> & { file?: string },
  overrides: AgentOverrides,
): Promise<Project> {
  const { config, dir, file } = loaded;
  const where = file ?? "the built-in project";
  for (const key of Object.keys(config)) {
    if ((projectKeys as readonly string[]).includes(key)) continue;
    throw new StatesetError("INVALID_OPTION", `Unknown key "${key}" in ${where}.`, {
      hint: didYouMean(key, projectKeys),
    });
  }
  return {
    agent: buildAgent(config.agent, overrides, where),
    environment: await buildEnvironment(config.environment, dir, where),
    heldOut: await buildHeldOut(config, dir, where),
    reward:
      config.reward === undefined || config.reward instanceof RewardFunction
        ? config.reward
        : rewardFromWeights(config.reward, `reward of ${where}`),
    trackers: (config.trackers ?? []).map((tracker) =>
      typeof tracker === "string" ? trackerNamed(tracker, `trackers of ${where}`) : tracker,
    ),
    config,
    file,
  };
}

function buildAgent(agent: ProjectConfig["agent"], overrides: AgentOverrides, where: string): Agent {
  const { model, threads, stub, sampling } = overrides;
  if (agent instanceof Agent) {
    const flags = {
      "--model": model,
      "--threads": threads,
      "--stub": stub || undefined,
      "--temperature": sampling?.temperature,
      "--max-tokens": sampling?.maxTokens,
    };
    const given = Object.entries(flags).flatMap(([name, value]) => (value === undefined ? [] : [name]));
    if (given.length === 0) return agent;
    throw new StatesetError(
      "INVALID_OPTION",
      `${given.join(" and ")} cannot change the agent that ${where} builds itself.`,
      {
        hint: "Give `agent` as options instead of an Agent, or change it there.",
      },
    );
  }
  const options: AgentOptions = {
    ...agent,
    ...(model !== undefined && { model }),
    ...(threads !== undefined && { threads }),
    ...(sampling && { sampling: { ...agent?.sampling, ...sampling } }),
  };
  if (!stub) return new MultiTurnAgent(options);
  const { model: _, lora: __, ...rest } = options;
  return new MultiTurnAgent({ ...rest, stub: { ...options.stub, dryRun: true } });
}

async function buildEnvironment(
  environment: ProjectConfig["environment"],
  dir: string,
  where: string,
): Promise<Environment> {
  if (environment instanceof Environment) return environment;
  const { preset, scenarios, ...rest } = environment as {
    preset?: string;
    scenarios?: ConversationEnvironmentOptions["scenarios"] | string;
  };
  if (preset !== undefined) return presets[presetNamed(preset, where)](rest);
  if (scenarios === undefined) {
    throw new StatesetError("INVALID_OPTION", `The environment of ${where} has neither a preset nor scenarios.`, {
      hint: 'Write { preset: "customerService" }, { scenarios: "scenarios.jsonl" } or an Environment.',
    });
  }
  const list = typeof scenarios === "string" ? await loadScenarios(resolve(dir, scenarios)) : scenarios;
  return new ConversationEnvironment({ ...rest, scenarios: list });
}

async function buildHeldOut(
  { heldOut, environment }: ProjectConfig,
  dir: string,
  where: string,
): Promise<Project["heldOut"]> {
  if (heldOut === undefined) {
    if (environment instanceof Environment) return undefined;
    const { preset, scenarios: _, ...rules } = environment as { preset?: string; scenarios?: unknown };
    return preset === undefined ? undefined : presets[presetNamed(preset, where)]({ ...rules, heldOut: true });
  }
  // A list is played in the project's environment, by the rules of training.
  return typeof heldOut === "string" ? loadScenarios(resolve(dir, heldOut)) : heldOut;
}

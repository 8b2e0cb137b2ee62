import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { Agent } from "../agent/agent.ts";
import { type AgentOptions, defined } from "../agent/agent-options.ts";
import { MultiTurnAgent } from "../agent/multi-turn-agent.ts";
import type { ReadOptions } from "../conversation/read-entries.ts";
import { Environment } from "../environment/environment.ts";
import type { Scenario } from "../environment/scenario.ts";
import { StatesetError } from "../error.ts";
import { pick } from "../options.ts";
import type { Sampling } from "../policy/policy.ts";
import type { TorchOptions } from "../policy/torch/torch-options.ts";
import type { RewardFunction } from "../reward/reward-function.ts";
import { readConfig } from "../run/config.ts";
import { findAgent, loadAgentFromCheckpoint } from "../run/load-agent.ts";
import type { Tracker } from "../run/tracker.ts";
import { didYouMean } from "../suggest.ts";
import type { ProjectConfig } from "./define-config.ts";
import { environmentFrom, heldOutFrom } from "./environments.ts";
import type { LoadedProject } from "./load-project.ts";
import { trackerNamed } from "./names.ts";
import { type EngineFlags, onEngine } from "./on-engine.ts";
import { isProjectKey, projectKeys } from "./plain-config.ts";
import { closeReward, rewardFrom } from "./rewards.ts";
import { checkSections } from "./sections.ts";

/** A configuration as far as learning from data needs it built. */
export interface ProjectParts {
  agent: Agent;
  trackers: Tracker[];
  config: ProjectConfig;
  /** The configuration's file, for messages; undefined for the built-in project. */
  file: string | undefined;
  /** Paths in the configuration are relative to this folder. */
  dir: string;
}

/** Where conversations are played and how they are scored. */
export interface Scene {
  environment: Environment;
  heldOut: Environment | readonly Scenario[] | undefined;
  reward: RewardFunction | undefined;
}

/** A configuration with everything it names built. */
export interface Project extends ProjectParts, Scene {}

/** What the command line changes about the agent. */
export interface AgentOverrides extends EngineFlags {
  model?: string;
  slots?: number | undefined;
  cacheBytes?: number | undefined;
  stub?: boolean;
  /** Train an adapter: `true` for the configured one or the defaults, or its rank. */
  lora?: true | number;
  /** Start from what a run trained: its folder, one of its checkpoints, or a saved model. */
  checkpoint?: string;
  sampling?: Pick<Partial<Sampling>, "temperature" | "maxTokens">;
  /** It is to learn: a model that can do so by an adapter alone gets one, unless something is said of it. */
  learns?: true;
}

/** The project of `--stub` without a configuration: support conversations, politeness and conciseness. */
export const defaultConfig: ProjectConfig = {
  environment: { preset: "customerService" },
  reward: { politeness: 0.5, conciseness: 0.5 },
  training: { steps: 3, groupsPerStep: 2, groupSize: 4 },
};

export type Loaded = Omit<LoadedProject, "file" | "notes"> & { file?: string };

export async function buildProject(
  loaded: Loaded,
  overrides: AgentOverrides,
  reading: ReadOptions = {},
): Promise<Project> {
  const scene = await buildScene(loaded, reading);
  try {
    return { ...(await buildParts(loaded, overrides)), ...scene };
  } catch (error) {
    await closeScene(scene);
    throw error;
  }
}

/** Without what conversations are played in. */
export async function buildParts(loaded: Loaded, overrides: AgentOverrides): Promise<ProjectParts> {
  const { config, dir, file } = loaded;
  const where = whereOf(loaded);
  checkKeys(config, where);
  return {
    agent: await buildAgent(loaded, overrides, where),
    trackers: (config.trackers ?? []).map((tracker) =>
      typeof tracker === "string" ? trackerNamed(tracker, `trackers of ${where}`) : tracker,
    ),
    config,
    file,
    dir,
  };
}

/** Without the agent: a checkpoint may bring another. `reading` is how its files of scenarios are read. */
export async function buildScene(loaded: Loaded, reading: ReadOptions = {}): Promise<Scene> {
  const { config, dir } = loaded;
  const where = whereOf(loaded);
  checkKeys(config, where);
  const { environment, heldOut, reward } = config;
  if (environment === undefined) {
    throw new StatesetError("INVALID_DATA", `${where} names no environment.`, {
      hint: "Add `environment: { preset: customerService }` or `environment: { scenarios: scenarios.jsonl }`.",
    });
  }
  const place = { dir, where, reading };
  const scene: Partial<Scene> = {};
  try {
    scene.environment = await environmentFrom(environment, place);
    scene.heldOut = await heldOutFrom(heldOut, environment, scene.environment, place);
    scene.reward = reward === undefined ? undefined : await rewardFrom(reward, { dir, where: `reward of ${where}` });
    return scene as Scene;
  } catch (error) {
    await closeScene(scene);
    throw error;
  }
}

/** What happens to a model at the end of the process must not hide how the run ended. */
export async function closeProject({ agent, ...scene }: ProjectParts & Partial<Scene>): Promise<void> {
  await Promise.allSettled([agent.close(), closeScene(scene)]);
}

export async function closeScene({ environment, heldOut, reward }: Partial<Scene>): Promise<void> {
  const played = new Set([environment, heldOut].filter((one) => one instanceof Environment));
  await Promise.allSettled([...[...played].map((one) => one.close()), closeReward(reward)]);
}

function whereOf({ file }: Loaded): string {
  return file ?? "the built-in project";
}

function checkKeys(config: ProjectConfig, where: string): void {
  for (const key of Object.keys(config)) {
    if (isProjectKey(key)) continue;
    throw new StatesetError("INVALID_OPTION", `Unknown key "${key}" in ${where}.`, {
      hint: didYouMean(key, projectKeys),
    });
  }
  checkSections(config, where);
}

async function buildAgent({ config, dir }: Loaded, overrides: AgentOverrides, where: string): Promise<Agent> {
  const { agent } = config;
  const { model, engine, gpus, threads, slots, cacheBytes, stub, lora, checkpoint, sampling } = overrides;
  if (agent instanceof Agent) {
    const flags = {
      "--model": model,
      "--checkpoint": checkpoint,
      "--engine": engine,
      "--gpus": gpus,
      "--threads": threads,
      "--slots": slots,
      "--cache": cacheBytes,
      "--lora": lora,
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
  const own = agentOptionsBeside(agent, dir);
  const options: AgentOptions = {
    ...own,
    ...(model !== undefined && { model }),
    ...onEngine(own ?? {}, overrides, stub),
    ...pick(overrides, ["slots", "cacheBytes"]),
    ...(lora !== undefined && { lora: withRank(own?.lora, lora) }),
    ...(sampling && { sampling: { ...own?.sampling, ...sampling } }),
  };
  if (overrides.learns && options.lora === undefined && options.precision === undefined && !stub) {
    const { isQuantised } = await import("../policy/gguf/find-gguf.ts");
    if (options.model !== undefined && (await isQuantised(options.model))) options.lora = true;
  }
  if (stub) {
    const { model: _, lora: __, engine: ___, torch: ____, ...rest } = options;
    return new MultiTurnAgent({ ...rest, stub: { ...options.stub, dryRun: true } });
  }
  return checkpoint === undefined ? new MultiTurnAgent(options) : agentFrom(checkpoint, options, lora);
}

/** The project's agent with the weights of a checkpoint, and with its habits where the project says nothing of them. */
async function agentFrom(
  checkpoint: string,
  { model: _, lora, ...habits }: AgentOptions,
  asked: AgentOverrides["lora"],
): Promise<Agent> {
  const place = findAgent(checkpoint);
  const adapted =
    place.kind === "checkpoint"
      ? readConfig(place.run).model.lora !== null
      : existsSync(join(place.dir, "adapter_config.json"));
  if (adapted && asked !== undefined) {
    throw new StatesetError("INVALID_OPTION", `${checkpoint} is an adapter already; it cannot get another one.`, {
      hint: "Leave --lora out to go on training it, or write its whole weights first: npx stateset-agents export --merge.",
    });
  }
  // An adapter goes on; whole weights get the one that the project wants.
  return loadAgentFromCheckpoint(place.dir, defined({ ...habits, ...(!adapted && { lora }) }));
}

/** Folders that the configuration names are beside it; what is not there may be on the hub. */
function agentOptionsBeside(agent: AgentOptions | undefined, dir: string): AgentOptions | undefined {
  const { model, hub, torch } = agent ?? {};
  const folder = typeof model === "string" && !model.includes("://") ? resolve(dir, model) : undefined;
  const isFolder = folder !== undefined && (/^\.{1,2}(\/|$)/.test(model!) || existsSync(folder));
  const cache = typeof hub?.cacheDir === "string" ? resolve(dir, hub.cacheDir) : undefined;
  return {
    ...agent,
    ...(isFolder && { model: folder }),
    ...(cache !== undefined && { hub: { ...hub, cacheDir: cache } }),
    // What is no record of options is refused with the others.
    ...(torch && typeof torch === "object" && { torch: torchBeside(torch, dir) }),
  };
}

function torchBeside(torch: TorchOptions, dir: string): TorchOptions {
  const { python, tls, logDir } = torch;
  return {
    ...torch,
    // A name alone is looked for in PATH.
    ...(typeof python === "string" && python.includes("/") && { python: resolve(dir, python) }),
    ...(typeof tls?.ca === "string" && { tls: { ...tls, ca: resolve(dir, tls.ca) } }),
    ...(typeof logDir === "string" && { logDir: resolve(dir, logDir) }),
  };
}

function withRank(configured: AgentOptions["lora"], asked: true | number): AgentOptions["lora"] {
  const own = typeof configured === "object" ? configured : {};
  // Twice the rank, as the defaults have it: the adapter's outputs then weigh the same whatever its rank.
  return asked === true ? configured || true : { ...own, rank: asked, alpha: own.alpha ?? 2 * asked };
}

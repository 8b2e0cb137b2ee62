/** config.json: everything that decides what a run does, so that two runs can be compared and one can be taken up again. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { messageOf, StatesetError } from "../error.ts";
import type { dataLearners } from "../learning/metric-table.ts";
import { readPlainText } from "../plain-file.ts";
import type { ModelInfo } from "../policy/policy.ts";
import { differences } from "./differences.ts";
import { pathIn } from "./layout.ts";

type Facts = Readonly<Record<string, unknown>>;

/** What learns: reinforcement, or one of the ways of learning from data. */
export type LearnerKind = "rl" | (typeof dataLearners)[number];

export interface RunConfig {
  version: 2;
  id: string;
  learner: LearnerKind;
  model: Pick<ModelInfo, "name" | "digest" | "architecture" | "parameters"> & {
    lora: Facts | null;
    /** Of training, where they are not f32. */
    moments?: ModelInfo["moments"];
    gradients?: ModelInfo["gradients"];
  };
  /** Resolved: every setting is there. */
  settings: Facts;
  algorithm?: { algorithm: string } & Facts;
  agent?: Facts;
  environment?: Facts;
  harness?: Facts;
  heldOut?: Facts;
  reward?: Facts;
  /** What is learnt from, where that is data. */
  data?: Facts;
  /** The run and step it was split off from. */
  forkedFrom?: { run: string; step: number };
}

export function modelFacts(model: ModelInfo): RunConfig["model"] {
  const { digest, architecture, parameters, lora, moments, gradients } = model;
  // A path in full: a checkpoint is opened from elsewhere. A hub id, and what is no file, as it is.
  const name = existsSync(model.name) ? resolve(model.name) : model.name;
  const kept = { ...(moments && { moments }), ...(gradients && { gradients }) };
  return { name, digest, architecture, parameters, lora: lora ? { ...lora } : null, ...kept };
}

/** Whether digests of two models can be compared: each engine, and each way to round a frozen base, makes them of a length of its own. */
export function isOfOneKind(one: string | undefined, other: string | undefined): boolean {
  return one?.length === other?.length;
}

export function readConfig(dir: string): RunConfig {
  const path = pathIn(dir, "config");
  if (!existsSync(path)) {
    throw new StatesetError("CHECKPOINT_NOT_FOUND", `There is no run at ${dir}.`, {
      hint: "Give a run's folder (it holds config.json) or one of its checkpoints.",
    });
  }
  let config: RunConfig;
  try {
    config = JSON.parse(readPlainText(path)) as RunConfig;
  } catch (error) {
    throw new StatesetError("CHECKPOINT_INVALID", `${path} cannot be read: ${messageOf(error)}.`, { cause: error });
  }
  const isObject = (value: unknown) => typeof value === "object" && value !== null;
  if (config?.version !== 2 || typeof config.id !== "string" || !isObject(config.settings) || !isObject(config.model)) {
    throw new StatesetError("CHECKPOINT_INVALID", `${path} is not the configuration of a run of this version.`, {
      hint: "Go on with it in the version it was begun with, or start a new run from its final/ folder or a checkpoint.",
    });
  }
  return config;
}

/** One thing a resumed run does differently from here on. */
export interface Change {
  /** `settings.steps`, `reward.parts.0.weight`, … */
  path: string;
  before: unknown;
  now: unknown;
}

/** What a run and its model are called, where it was split off, and how often it is begun again, does not change what it does. */
const notCompared = /^(?:id|forkedFrom\..*|version|model\.name|settings\.restarts)$/;

export function changesBetween(before: Partial<RunConfig>, now: Partial<RunConfig>): Change[] {
  const digests = isOfOneKind(before.model?.digest, now.model?.digest);
  return differences({ ...before }, { ...now })
    .filter(({ path }) => !notCompared.test(path) && (digests || path !== "model.digest"))
    .map(({ path, a, b }) => ({ path, before: a, now: b }));
}

export function changesText(changes: readonly Change[], said = "The run goes on otherwise than it began"): string {
  const text = (value: unknown) => JSON.stringify(value) ?? "nothing";
  const shown = changes.slice(0, 12).map(({ path, before, now }) => `${path} ${text(before)} → ${text(now)}`);
  const more = changes.length > 12 ? `, and ${changes.length - 12} more` : "";
  return `${said}: ${shown.join(", ")}${more}.`;
}

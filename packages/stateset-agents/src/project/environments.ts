/** Environments that a configuration names instead of building them in code: presets, scenarios, tasks, files. */
import { resolve } from "node:path";
import type { ReadOptions } from "../conversation/read-entries.ts";
import {
  ConversationEnvironment,
  type ConversationEnvironmentOptions,
} from "../environment/conversation-environment.ts";
import { booking } from "../environment/domain/booking/booking.ts";
import type { DomainOptions } from "../environment/domain/domain.ts";
import { retail } from "../environment/domain/retail/retail.ts";
import { Environment } from "../environment/environment.ts";
import { loadScenarios, loadTasks } from "../environment/load-scenarios.ts";
import { customerService, sales, technicalSupport } from "../environment/preset/index.ts";
import type { Scenario } from "../environment/scenario.ts";
import { type ReplyTaskOptions, TaskEnvironment } from "../environment/task-environment.ts";
import { StatesetError } from "../error.ts";
import type { RewardFunction } from "../reward/reward-function.ts";
import { importFile, namesCode } from "./import-file.ts";
import { type DomainName, domainNamed, type PresetName, presetNamed } from "./names.ts";
import { closeReward, type PartPlace, type RewardParts, rewardFrom } from "./rewards.ts";

type Rules = Omit<ConversationEnvironmentOptions, "scenarios">;

/** Goals that are checked; a file holds one a line of JSONL, or a list in YAML or JSON. */
export interface TaskPart {
  tasks: ReplyTaskOptions["tasks"] | string;
  /**
   * What decides whether a reply solves the task: a function, a file whose default export is one (`./check.ts`), or a reward, whose score
   * is the progress: `exactMatch`, `{ numericAnswer: { tolerance: 0.01 } }`.
   */
  check: ReplyTaskOptions["check"] | string | RewardParts;
  maxTurns?: number;
}

/** Generated tasks with a state: `{ domain: retail, level: 2, tasks: 128 }`. */
export interface DomainPart extends DomainOptions {
  domain: DomainName;
}

/** An environment as a configuration gives it. A string is the path of a file whose default export is one. */
export type EnvironmentChoice =
  | Environment
  | string
  | (Rules & { preset: PresetName })
  | DomainPart
  | (Rules & { scenarios: ConversationEnvironmentOptions["scenarios"] | string })
  | TaskPart;

export type HeldOutChoice = Environment | readonly Scenario[] | string;

/** How files of scenarios and tasks are read. */
type ScenePlace = PartPlace & { reading: ReadOptions };

const presets = { customerService, technicalSupport, sales };
const domains = { retail, booking };

export async function environmentFrom(given: EnvironmentChoice, place: ScenePlace): Promise<Environment> {
  if (given instanceof Environment) return given;
  const { dir, where } = place;
  if (typeof given === "string") return environmentOfFile(given, place);
  if ("domain" in given) return domainFrom(given, place);
  if ("tasks" in given) return tasksFrom(given, place);
  const { preset, scenarios, ...rest } = given as Rules & { preset?: string; scenarios?: unknown };
  if (preset !== undefined) return presets[presetNamed(preset, where)](rest);
  if (scenarios === undefined) {
    throw new StatesetError(
      "INVALID_OPTION",
      `The environment of ${where} has no preset, no domain, no scenarios and no tasks.`,
      {
        hint: 'Write { preset: "customerService" }, { domain: "retail" }, { scenarios: "scenarios.jsonl" }, { tasks: …, check: … }, "./environment.ts" or an Environment.',
      },
    );
  }
  const list = typeof scenarios === "string" ? await loadScenarios(resolve(dir, scenarios), place.reading) : scenarios;
  return new ConversationEnvironment({ ...rest, scenarios: list as ConversationEnvironmentOptions["scenarios"] });
}

/** A list is played in the project's environment, by the rules of training; `environment` is that of the choice. */
export async function heldOutFrom(
  heldOut: HeldOutChoice | undefined,
  choice: EnvironmentChoice,
  environment: Environment,
  place: ScenePlace,
): Promise<Environment | readonly Scenario[] | undefined> {
  const { dir, where } = place;
  const named = choice instanceof Environment || typeof choice === "string" ? undefined : choice;
  if (heldOut === undefined) {
    if (named && "domain" in named) return named.heldOut ? undefined : domainFrom({ ...named, heldOut: true }, place);
    if (!named || !("preset" in named)) return undefined;
    const { preset, ...rules } = named;
    return presets[presetNamed(preset, where)]({ ...rules, heldOut: true });
  }
  if (typeof heldOut !== "string") return heldOut;
  if (namesCode(heldOut) && !/\.(jsonl|json|ya?ml)$/i.test(heldOut)) return environmentOfFile(heldOut, place);
  const file = resolve(dir, heldOut);
  if (named && "domain" in named) {
    throw new StatesetError("INVALID_OPTION", `Tasks of a domain cannot be read from a file: heldOut of ${where}.`, {
      hint: "Leave heldOut out: the domain has held-out tasks of its own.",
    });
  }
  if (!named || !("tasks" in named)) return loadScenarios(file, place.reading);
  const tasks = await loadTasks(file, place.reading);
  return environment instanceof CheckedTasks ? environment.withTasks(tasks) : tasksFrom({ ...named, tasks }, place);
}

function domainFrom({ domain, ...options }: DomainPart, { where }: PartPlace): TaskEnvironment {
  return domains[domainNamed(domain, where)](options);
}

/** Tasks that a verifier or another reward checks: they say so in config.json, and close it with them. */
class CheckedTasks extends TaskEnvironment {
  readonly #options: Omit<ReplyTaskOptions, "tasks">;
  readonly #reward: RewardFunction;
  readonly #owns: boolean;

  constructor({ tasks, ...options }: ReplyTaskOptions, reward: RewardFunction, owns = true) {
    super({ ...options, tasks });
    this.#options = options;
    this.#reward = reward;
    this.#owns = owns;
  }

  /** Others by the same rules. The check stays one: a reward model is in memory once, a judge has one budget. */
  withTasks(tasks: ReplyTaskOptions["tasks"]): CheckedTasks {
    return new CheckedTasks({ ...this.#options, tasks }, this.#reward, false);
  }

  override describe(): Record<string, unknown> {
    return { ...super.describe(), check: this.#reward.describe() };
  }

  override async close(): Promise<void> {
    if (this.#owns) await closeReward(this.#reward);
  }
}

async function tasksFrom({ tasks, check, ...rest }: TaskPart, place: ScenePlace): Promise<TaskEnvironment> {
  const list = typeof tasks === "string" ? await loadTasks(resolve(place.dir, tasks), place.reading) : tasks;
  if (typeof check === "function") return new TaskEnvironment({ ...rest, tasks: list, check });
  if (check === undefined) {
    throw new StatesetError("INVALID_OPTION", `The tasks of ${place.where} have no check.`, {
      hint: "Write `check: exactMatch`, `check: { numericAnswer: { tolerance: 0.01 } }` or `check: ./check.ts`.",
    });
  }
  if (typeof check === "string" && namesCode(check)) {
    const file = resolve(place.dir, check);
    const value = await importFile(file, place.where);
    if (typeof value !== "function") {
      throw new StatesetError("INVALID_DATA", `${file} exports no function that checks a reply.`, {
        hint: "Write `export default (reply, state) => reply.content.includes(state.scenario.expected)`.",
      });
    }
    return new TaskEnvironment({ ...rest, tasks: list, check: value as ReplyTaskOptions["check"] });
  }
  const reward = await rewardFrom(check, { ...place, where: `check of ${place.where}` });
  const scored: ReplyTaskOptions["check"] = async (reply, { turns, scenario }, { signal }) => {
    const conversation = { turns: [...turns, reply], scenario };
    const { score } = await reward.compute(conversation, signal === undefined ? {} : { signal });
    return Math.min(1, Math.max(0, score));
  };
  try {
    return new CheckedTasks({ ...rest, tasks: list, check: scored }, reward);
  } catch (error) {
    await closeReward(reward);
    throw error;
  }
}

async function environmentOfFile(path: string, { dir, where }: PartPlace): Promise<Environment> {
  const file = resolve(dir, path);
  const value = await importFile(file, where);
  if (value instanceof Environment) return value;
  throw new StatesetError("INVALID_DATA", `${file} exports no environment.`, {
    hint: "Its default export must be an Environment, such as `new TaskEnvironment({ … })`.",
  });
}

/** Environments that a configuration names instead of building them in code: presets, scenarios, tasks, files. */
import { resolve } from "node:path";
import type { ReadOptions } from "../conversation/read-entries.ts";
import {
  ConversationEnvironment,
  type ConversationEnvironmentOptions,
} from "../environment/conversation-environment.ts";
import { Environment } from "../environment/environment.ts";
import { loadScenarios } from "../environment/load-scenarios.ts";
import { customerService, sales, technicalSupport } from "../environment/preset/index.ts";
import type { Scenario } from "../environment/scenario.ts";
import { TaskEnvironment, type TaskEnvironmentOptions } from "../environment/task-environment.ts";
import { StatesetError } from "../error.ts";
import { importFile, namesCode } from "./import-file.ts";
import { type PresetName, presetNamed } from "./names.ts";
import { readList } from "./read-data.ts";
import { type PartPlace, type RewardParts, rewardFrom } from "./rewards.ts";

type Rules = Omit<ConversationEnvironmentOptions, "scenarios">;

/** Goals that are checked; a file holds one a line of JSONL, or a list in YAML or JSON. */
export interface TaskPart {
  tasks: TaskEnvironmentOptions["tasks"] | string;
  /**
   * What decides whether a reply solves the task: a function, a file whose default export is one (`./check.ts`), or a reward, whose score
   * is the progress: `exactMatch`, `{ numericAnswer: { tolerance: 0.01 } }`.
   */
  check: TaskEnvironmentOptions["check"] | string | RewardParts;
  maxTurns?: number;
}

/** An environment as a configuration gives it. A string is the path of a file whose default export is one. */
export type EnvironmentChoice =
  | Environment
  | string
  | (Rules & { preset: PresetName })
  | (Rules & { scenarios: ConversationEnvironmentOptions["scenarios"] | string })
  | TaskPart;

export type HeldOutChoice = Environment | readonly Scenario[] | string;

/** How files of scenarios and tasks are read. */
type ScenePlace = PartPlace & { reading: ReadOptions };

const presets = { customerService, technicalSupport, sales };

export async function environmentFrom(given: EnvironmentChoice, place: ScenePlace): Promise<Environment> {
  if (given instanceof Environment) return given;
  const { dir, where } = place;
  if (typeof given === "string") return environmentOfFile(given, place);
  if ("tasks" in given) return tasksFrom(given, place);
  const { preset, scenarios, ...rest } = given as Rules & { preset?: string; scenarios?: unknown };
  if (preset !== undefined) return presets[presetNamed(preset, where)](rest);
  if (scenarios === undefined) {
    throw new StatesetError("INVALID_OPTION", `The environment of ${where} has no preset, no scenarios and no tasks.`, {
      hint: 'Write { preset: "customerService" }, { scenarios: "scenarios.jsonl" }, { tasks: …, check: … }, "./environment.ts" or an Environment.',
    });
  }
  const list = typeof scenarios === "string" ? await loadScenarios(resolve(dir, scenarios), place.reading) : scenarios;
  return new ConversationEnvironment({ ...rest, scenarios: list as ConversationEnvironmentOptions["scenarios"] });
}

/** A list is played in the project's environment, by the rules of training. */
export async function heldOutFrom(
  heldOut: HeldOutChoice | undefined,
  environment: EnvironmentChoice,
  place: ScenePlace,
): Promise<Environment | readonly Scenario[] | undefined> {
  const { dir, where } = place;
  const named = environment instanceof Environment || typeof environment === "string" ? undefined : environment;
  if (heldOut === undefined) {
    if (!named || !("preset" in named)) return undefined;
    const { preset, ...rules } = named;
    return presets[presetNamed(preset, where)]({ ...rules, heldOut: true });
  }
  if (named && "tasks" in named && typeof heldOut === "string") {
    return tasksFrom({ ...named, tasks: heldOut }, place);
  }
  if (typeof heldOut !== "string") return heldOut;
  return namesCode(heldOut) && !/\.(jsonl|json|ya?ml)$/i.test(heldOut)
    ? environmentOfFile(heldOut, place)
    : loadScenarios(resolve(dir, heldOut), place.reading);
}

/** Tasks that a verifier or another reward checks say so in config.json. */
class CheckedTasks extends TaskEnvironment {
  readonly #checkedBy: () => Record<string, unknown>;

  constructor(options: TaskEnvironmentOptions, checkedBy: () => Record<string, unknown>) {
    super(options);
    this.#checkedBy = checkedBy;
  }

  override describe(): Record<string, unknown> {
    return { ...super.describe(), check: this.#checkedBy() };
  }
}

async function tasksFrom({ tasks, check, ...rest }: TaskPart, place: ScenePlace): Promise<TaskEnvironment> {
  const list =
    typeof tasks === "string"
      ? ((await readList(resolve(place.dir, tasks), "tasks", place.reading)) as TaskEnvironmentOptions["tasks"])
      : tasks;
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
    return new TaskEnvironment({ ...rest, tasks: list, check: value as TaskEnvironmentOptions["check"] });
  }
  const reward = await rewardFrom(check, { ...place, where: `check of ${place.where}` });
  const scored: TaskEnvironmentOptions["check"] = async (reply, { turns, scenario }, { signal }) => {
    const conversation = { turns: [...turns, reply], scenario };
    const { score } = await reward.compute(conversation, signal === undefined ? {} : { signal });
    return Math.min(1, Math.max(0, score));
  };
  return new CheckedTasks({ ...rest, tasks: list, check: scored }, () => reward.describe());
}

async function environmentOfFile(path: string, { dir, where }: PartPlace): Promise<Environment> {
  const file = resolve(dir, path);
  const value = await importFile(file, where);
  if (value instanceof Environment) return value;
  throw new StatesetError("INVALID_DATA", `${file} exports no environment.`, {
    hint: "Its default export must be an Environment, such as `new TaskEnvironment({ … })`.",
  });
}

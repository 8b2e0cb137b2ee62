import { randomInt } from "node:crypto";
import { z } from "zod";
import type { Message } from "../conversation/message.ts";
import type { Turn } from "../conversation/trajectory.ts";
import { fingerprint } from "../describe.ts";
import { StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import {
  Environment,
  type EnvironmentState,
  type ResetOptions,
  type StepOptions,
  type StepResult,
} from "./environment.ts";
import { awaitsReply, givenTurns, openingShape, readOpening } from "./opening.ts";
import { type ConversationScenarioInput, requireDistinctIds, scenarioShape } from "./parse-scenario.ts";
import type { Scenario } from "./scenario.ts";

/** Something to achieve. `prompt` is what the user says first (default: the goal). */
export interface Task extends Scenario {
  goal: string;
  prompt?: string;
  /** How the conversation began, in place of the prompt; the last message is one of the user or of a tool. Never learnt from. */
  messages?: readonly Message[];
  /** What the user says after replies that did not succeed, in order. */
  followUps?: readonly string[];
}

/** How far a reply got: yes or no, a number from 0 to 1, or either with something to tell the agent. */
export type TaskCheck = boolean | number | { success: boolean; progress?: number; feedback?: string };

export interface TaskEnvironmentOptions {
  /** As a scenario's, their `prompt` may be a list of messages. */
  tasks: readonly (Omit<Task, "prompt" | "messages"> & Pick<ConversationScenarioInput, "prompt" | "messages">)[];
  /** Decides in code whether the task is done; `state.turns` does not hold the reply yet. */
  check: (reply: Turn, state: EnvironmentState<Task>, options: StepOptions) => TaskCheck | Promise<TaskCheck>;
  /** Replies of the agent after which a task counts as failed. Default 6. */
  maxTurns?: number | undefined;
}

const taskSchema = z.strictObject({
  ...scenarioShape,
  ...openingShape,
  goal: z.string().min(1),
  followUps: z.array(z.string().min(1)).optional(),
});

const optionsSchema = z.strictObject({
  tasks: z.array(z.unknown()),
  check: z.custom<TaskEnvironmentOptions["check"]>((value) => typeof value === "function", "a function was expected"),
  maxTurns: z.int().min(1).default(6),
});

/**
 * Goal-oriented conversations. The reward of a step is the progress it made over the best so far, so rewards of an episode add up
 * to its best progress: 1 when the task was solved. `metadata.success` and `metadata.progress` say it too.
 */
export class TaskEnvironment extends Environment<Task> {
  readonly scenarios: readonly Task[];
  readonly maxTurns: number;
  readonly #check: TaskEnvironmentOptions["check"];

  constructor(options: TaskEnvironmentOptions) {
    super();
    const parsed = parseOptions(optionsSchema, options, "TaskEnvironment");
    if (parsed.tasks.length === 0) {
      throw new StatesetError("INVALID_SCENARIO", "TaskEnvironment got no tasks.", {
        hint: 'Give at least one, such as {id: "sum", goal: "What is 2 + 2?"}.',
      });
    }
    const where = (i: number) => `Task ${i + 1}`;
    this.scenarios = parsed.tasks.map((task, i) => parseTask(task, where(i)));
    requireDistinctIds(this.scenarios, where);
    this.maxTurns = parsed.maxTurns;
    this.#check = parsed.check;
  }

  override describe(): Record<string, unknown> {
    return { ...super.describe(), maxTurns: this.maxTurns, check: fingerprint(this.#check) };
  }

  override async reset(task?: Task, { seed = randomInt(2 ** 32) }: ResetOptions = {}): Promise<EnvironmentState<Task>> {
    const scenario = task ?? this.scenarios[seed % this.scenarios.length]!;
    // Scenarios from elsewhere need not be tasks.
    const content: string | undefined = scenario.prompt ?? scenario.goal;
    if (content === undefined) {
      throw new StatesetError("INVALID_SCENARIO", `Scenario "${scenario.id}" is no task: it has no goal.`, {
        hint: "Give it one, or play it in a ConversationEnvironment.",
      });
    }
    const turns: Turn[] = scenario.messages ? givenTurns(scenario) : [{ role: "user", content }];
    return { scenario, turns, replies: 0, seed, done: false, metadata: { success: false, progress: 0 } };
  }

  override async step(
    state: EnvironmentState<Task>,
    action: Turn,
    options: StepOptions = {},
  ): Promise<StepResult<Task>> {
    const { success, progress, feedback } = readCheck(await this.#check(action, state, options), state.scenario.id);
    const best = Math.max(progress, state.metadata.progress as number);
    const reward = best - (state.metadata.progress as number);
    const replies = state.replies + 1;
    const next = { ...state, replies, metadata: { ...state.metadata, success, progress: best } };
    const turns = [...state.turns, action];
    if (success || replies >= this.maxTurns) {
      const ended = success ? ("done" as const) : ("max-turns" as const);
      return { state: { ...next, turns, done: true, ended }, reward, done: true, info: { success, progress: best } };
    }
    const said = feedback ?? state.scenario.followUps?.[replies - 1] ?? "That does not solve it yet. Please try again.";
    const userTurn: Turn = { role: "user", content: said };
    return { state: { ...next, turns: [...turns, userTurn] }, userTurn, reward, done: false };
  }
}

/** `where` says where it stands: "Task 3", "file.jsonl, line 3: task 3". */
export function parseTask(value: unknown, where: string): Task {
  const task = parseOptions(taskSchema, value, where, "INVALID_SCENARIO");
  const { prompt, messages, ...rest } = task;
  if (prompt === undefined && messages === undefined) return rest as Task;
  const opening = readOpening(task, where);
  if (opening.messages && !awaitsReply(opening.messages)) {
    throw new StatesetError("INVALID_SCENARIO", `${where} has no user turn to answer.`, {
      hint: "End its messages with one of the user or a tool.",
    });
  }
  return { ...rest, ...opening } as Task;
}

function readCheck(result: TaskCheck, taskId: string): { success: boolean; progress: number; feedback?: string } {
  if (typeof result === "boolean") return { success: result, progress: result ? 1 : 0 };
  const { success, progress, feedback } =
    typeof result === "number"
      ? { success: result >= 1, progress: result }
      : { progress: result.success ? 1 : 0, ...result };
  if (!(progress >= 0 && progress <= 1)) {
    throw new StatesetError("ENVIRONMENT_FAILED", `The check of task "${taskId}" gave a progress of ${progress}.`, {
      hint: "Give a number from 0 to 1.",
    });
  }
  return { success, progress: success ? 1 : progress, ...(feedback !== undefined && { feedback }) };
}

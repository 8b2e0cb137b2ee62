import { randomInt } from "node:crypto";
import { z } from "zod";
import type { Message } from "../conversation/message.ts";
import type { ToolDefinition } from "../conversation/tool-definition.ts";
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
import { readCheck, type TaskCheck } from "./task/check.ts";
import { type StatefulTaskOptions, StatefulTasks } from "./task/stateful.ts";
import type { StatefulTask } from "./task/stateful-task.ts";
import type { AnyState } from "./task/task-tool.ts";

export type { TaskCheck };

/** Something to achieve. `prompt` is what the user says first (default: the goal). */
export interface Task extends Scenario {
  goal: string;
  prompt?: string;
  /** How the conversation began, in place of the prompt; the last message is one of the user or of a tool. Never learnt from. */
  messages?: readonly Message[];
  /** What the user says after replies that did not succeed, in order. */
  followUps?: readonly string[];
}

/** Tasks whose replies are checked one by one. */
export interface ReplyTaskOptions {
  /** As a scenario's, their `prompt` may be a list of messages. */
  tasks: readonly (Omit<Task, "prompt" | "messages"> & Pick<ConversationScenarioInput, "prompt" | "messages">)[];
  /** Decides in code whether the task is done; `state.turns` does not hold the reply yet. */
  check: (reply: Turn, state: EnvironmentState<Task>, options: StepOptions) => TaskCheck | Promise<TaskCheck>;
  /** Replies of the agent after which a task counts as failed. Default 6. */
  maxTurns?: number | undefined;
  /** Given, even an empty list: tasks with a state. */
  tools?: undefined;
}

/** Tasks whose replies are checked one by one; or, with `tools`, tasks with a state, checked in the end. */
export type TaskEnvironmentOptions<D = AnyState> = ReplyTaskOptions | StatefulTaskOptions<D>;

const taskSchema = z.strictObject({
  ...scenarioShape,
  ...openingShape,
  goal: z.string().min(1),
  followUps: z.array(z.string().min(1)).optional(),
});

const optionsSchema = z.strictObject({
  tasks: z.array(z.unknown()),
  check: z.custom<ReplyTaskOptions["check"]>(
    (value) => typeof value === "function",
    "a function was expected (or `tools`, for tasks with a state)",
  ),
  maxTurns: z.int().min(1).default(6),
});

/**
 * Goal-oriented conversations. With `check(reply)` the reward of a step is the progress it made over the best so far, so rewards of an
 * episode add up to its best progress: 1 when the task was solved. With `tools` a task has a state that calls change, and the reward is
 * how far it got in the end. `metadata.success` and `metadata.progress` say it too.
 */
// biome-ignore lint/suspicious/noExplicitAny: a state is what its task says it is.
export class TaskEnvironment<D = any> extends Environment<Task> {
  readonly scenarios: readonly Task[];
  readonly maxTurns: number;
  readonly #check: ReplyTaskOptions["check"] | undefined;
  readonly #stateful: StatefulTasks | undefined;

  constructor(options: Exclude<TaskEnvironmentOptions<D>, { tools: object }>);
  constructor(options: Extract<TaskEnvironmentOptions<D>, { tools: object }>);
  constructor(options: TaskEnvironmentOptions<D>);
  constructor(options: TaskEnvironmentOptions<D>) {
    super();
    const where = (i: number) => `Task ${i + 1}`;
    if (isStateful(options)) {
      this.#stateful = new StatefulTasks(options);
      this.scenarios = this.#stateful.tasks;
      this.maxTurns = this.#stateful.maxTurns;
    } else {
      const parsed = parseOptions(optionsSchema, options, "TaskEnvironment");
      this.scenarios = parsed.tasks.map((task, i) => parseTask(task, where(i)));
      this.maxTurns = parsed.maxTurns;
      this.#check = parsed.check;
    }
    if (this.scenarios.length === 0) {
      throw new StatesetError("INVALID_SCENARIO", "TaskEnvironment got no tasks.", {
        hint: 'Give at least one, such as {id: "sum", goal: "What is 2 + 2?"}.',
      });
    }
    requireDistinctIds(this.scenarios, where);
  }

  override describe(): Record<string, unknown> {
    const own = this.#stateful?.describe() ?? { maxTurns: this.maxTurns, check: fingerprint(this.#check) };
    return { ...super.describe(), ...own };
  }

  override tools(state: EnvironmentState<Task>): readonly ToolDefinition[] | undefined {
    return this.#stateful?.tools(state as EnvironmentState<StatefulTask>);
  }

  override async reset(task?: Task, options: ResetOptions = {}): Promise<EnvironmentState<Task>> {
    const { seed = randomInt(2 ** 32) } = options;
    const scenario = task ?? this.scenarios[seed % this.scenarios.length]!;
    if (this.#stateful) return this.#stateful.reset(scenario as StatefulTask, seed, options);
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
    if (this.#stateful) return this.#stateful.step(state as EnvironmentState<StatefulTask>, action, options);
    const { success, progress, feedback } = readCheck(await this.#check!(action, state, options), state.scenario.id);
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

function isStateful<D>(options: TaskEnvironmentOptions<D>): options is StatefulTaskOptions<D> {
  return (options as Partial<StatefulTaskOptions> | undefined)?.tools !== undefined;
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

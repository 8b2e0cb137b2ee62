/** Episodes of tasks with a state: who speaks next, what tools do to the state, and how it ends. */
import { z } from "zod";
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import type { Turn } from "../../conversation/trajectory.ts";
import { fingerprint } from "../../describe.ts";
import { messageOf, StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { compilePartial } from "../../tool/schema/partial-schema.ts";
import type { EnvironmentState, ResetOptions, StepOptions, StepResult } from "../environment.ts";
import { givenTurns } from "../opening.ts";
import { scriptedUser } from "../user/scripted.ts";
import { describeUser, firstWords, nextWords, type User, userSchema } from "../user/user.ts";
import { type FinalCheck, type ReadCheck, readCheck } from "./check.ts";
import { judgeDeclared } from "./declared.ts";
import { callsIn, type FinalTask, wordsIn } from "./final.ts";
import { frozenJson, stateHash } from "./json-state.ts";
import { type KnownTool, readStatefulTask, type StatefulTask, type StatefulTaskInput } from "./stateful-task.ts";
import {
  type AnyState,
  callsToAnswer,
  definitionsOf,
  type ReadTaskTool,
  readTaskTools,
  runTaskCalls,
  type TaskTool,
  type TaskWrite,
} from "./task-tool.ts";

export interface StatefulTaskOptions<D = AnyState> {
  tasks: readonly StatefulTaskInput<D>[];
  /** What the agent can do: each is a function of the task's state. May be empty. */
  tools: readonly TaskTool<D>[];
  /** Looks at how an episode ended. Beside what a task declares, both must hold. */
  check?: ((final: FinalTask<D>) => FinalCheck | Promise<FinalCheck>) | undefined;
  /** Who talks to the agent. Default: the task's own `turns`, then it hangs up. */
  user?: User | undefined;
  /** The rules of the house: they go into the system prompt. */
  policy?: string | undefined;
  /** Replies of the agent, calls among them, after which an episode ends. Default 12. */
  maxTurns?: number | undefined;
}

/** What the state of such an episode, and its trajectory, has in its metadata. */
export interface StatefulMetadata<D = AnyState> {
  /** Known in the end; until then false and 0. */
  success: boolean;
  progress: number;
  /** Why it is no success, where it was said. */
  why?: string;
  stateHash: string;
  writes: readonly TaskWrite[];
  state: D;
}

const isFunction = (value: unknown) => typeof value === "function";
const optionsSchema = z.strictObject({
  tasks: z.array(z.unknown()),
  tools: z.array(z.unknown()),
  check: z.custom<StatefulTaskOptions["check"]>(isFunction, "a function was expected").optional(),
  user: userSchema.optional(),
  policy: z.string().min(1).optional(),
  maxTurns: z.int().min(1).default(12),
});

type State = EnvironmentState<StatefulTask>;

export class StatefulTasks {
  readonly tasks: readonly StatefulTask[];
  readonly maxTurns: number;
  readonly #tools: ReadonlyMap<string, ReadTaskTool>;
  readonly #check: StatefulTaskOptions["check"];
  readonly #user: User;
  readonly #policy: string | undefined;

  constructor(options: StatefulTaskOptions) {
    const parsed = parseOptions(optionsSchema, options, "TaskEnvironment");
    const { user, policy, check } = parsed;
    this.#tools = readTaskTools(parsed.tools, "TaskEnvironment");
    this.#check = check;
    this.#user = user ?? scriptedUser(({ turns }: Partial<StatefulTask>) => turns ?? []);
    this.#policy = policy;
    this.maxTurns = parsed.maxTurns;
    const known = new Map([...this.#tools].map(([name, { tool }]) => [name, knownTool(tool)]));
    const common = { tools: known, policy, hasUser: !!user, hasCheck: !!check };
    this.tasks = parsed.tasks.map((task, i) => readStatefulTask(task, { ...common, where: `Task ${i + 1}` }));
  }

  describe(): Record<string, unknown> {
    return {
      maxTurns: this.maxTurns,
      tools: fingerprint([...this.#tools.values()].map(({ tool, run }) => [tool.definition, run])),
      user: describeUser(this.#user),
      ...(this.#check && { check: fingerprint(this.#check) }),
      ...(this.#policy !== undefined && { policy: this.#policy }),
    };
  }

  tools({ scenario }: State): readonly ToolDefinition[] | undefined {
    const shown = definitionsOf(this.#shown(scenario));
    return shown.length > 0 ? shown : undefined;
  }

  async reset(task: StatefulTask, seed: number, { signal }: ResetOptions): Promise<State> {
    const state: unknown = frozenJson(task.state === undefined ? {} : task.state, `the state of task "${task.id}"`);
    const hash = stateHash(state);
    const metadata: StatefulMetadata = { success: false, progress: 0, stateHash: hash, writes: [], state };
    const turns = task.messages
      ? givenTurns(task)
      : [userTurn(task.prompt ?? (await firstWords(this.#user, task, seed, signal)))];
    const marked = turns.map((turn) => ({ ...turn, metadata: { ...turn.metadata, stateHash: hash } }));
    return { scenario: task, turns: marked, replies: 0, seed, done: false, metadata: { ...metadata } };
  }

  async step(state: State, reply: Turn, { signal }: StepOptions): Promise<StepResult<StatefulTask>> {
    const { scenario } = state;
    const before = state.metadata as unknown as StatefulMetadata;
    const calls = callsToAnswer(reply);
    const replies = state.replies + 1;
    const turns = [...state.turns, reply];
    if (calls.length > 0) {
      const tools = this.#shown(scenario);
      const ran = await runTaskCalls(calls, reply, { tools, state: before.state, turns: state.turns, signal });
      const writes = [...before.writes, ...ran.writes];
      const metadata = { ...before, state: ran.state, stateHash: stateHash(ran.state), writes };
      const next: State = { ...state, replies, turns: [...turns, ...ran.results], metadata };
      return replies >= this.maxTurns ? this.#end(next, "max-turns") : { state: next, done: false };
    }
    const opened = scenario.prompt !== undefined;
    const words = await nextWords(this.#user, { scenario, seed: state.seed, turns, opened }, signal);
    const next: State = { ...state, replies, turns };
    if (words === undefined) return this.#end(next, "done");
    if (replies >= this.maxTurns) return this.#end(next, "max-turns");
    const said: Turn = { ...userTurn(words), metadata: { stateHash: before.stateHash } };
    return { state: { ...next, turns: [...turns, said] }, userTurn: said, done: false };
  }

  #shown({ toolNames }: StatefulTask): ReadonlyMap<string, ReadTaskTool> {
    return toolNames ? new Map([...this.#tools].filter(([name]) => toolNames.includes(name))) : this.#tools;
  }

  async #end(state: State, ended: "done" | "max-turns"): Promise<StepResult<StatefulTask>> {
    const { success, progress, why } = await this.#judge(state, ended);
    const metadata = { ...state.metadata, success, progress, ...(why !== undefined && { why }) };
    const info = { success, progress };
    return { state: { ...state, metadata, done: true, ended }, reward: progress, done: true, info };
  }

  async #judge({ scenario, turns, metadata }: State, ended: "done" | "max-turns"): Promise<ReadCheck> {
    const { state, writes } = metadata as unknown as StatefulMetadata;
    const final: FinalTask = {
      ...{ task: scenario, state, initial: scenario.state === undefined ? {} : scenario.state, writes, turns, ended },
      ...{ calls: callsIn(turns), said: wordsIn(turns) },
    };
    const declared = judgeDeclared(scenario, final);
    if (!this.#check || !declared.success) return declared;
    let result: FinalCheck;
    try {
      result = await this.#check(final);
    } catch (error) {
      throw new StatesetError("ENVIRONMENT_FAILED", `The check of task "${scenario.id}" threw: ${messageOf(error)}.`, {
        hint: "It looks at the end of an episode, whatever the agent did in it.",
        cause: error,
      });
    }
    return readCheck(result, scenario.id);
  }
}

function knownTool({ definition }: ReadTaskTool["tool"]): KnownTool {
  return { definition, problemsOf: compilePartial(definition.function.parameters ?? {}) };
}

function userTurn(content: string): Turn {
  return { role: "user", content };
}

/** Tools of a task: pure functions of its state, run one after the other in the order they were called. */
import { z } from "zod";
import { callsOfAgent, unreadableCalls } from "../../conversation/call-notes.ts";
import type { ToolCall } from "../../conversation/message.ts";
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import type { Turn } from "../../conversation/trajectory.ts";
import { StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import type { ToolParameters } from "../../tool/parameters.ts";
import { resultTurn, runCalls } from "../../tool/run-calls.ts";
import { type Tool, tool } from "../../tool/tool.ts";
import { frozenJson, stateHash } from "./json-state.ts";

// biome-ignore lint/suspicious/noExplicitAny: a state is what its task says it is.
export type AnyState = any;
// biome-ignore lint/suspicious/noExplicitAny: arguments are of any type, each tool's own.
type AnyArguments = any;
type AnyTool = Tool<AnyArguments>;

/** What a tool makes of a call: what the agent reads, and the state after it where it changed. */
export interface TaskToolResult<D = AnyState> {
  result: unknown;
  state?: D | undefined;
}

export interface TaskTool<D = AnyState> {
  /** Letters, digits, `_`, `.` and `-`. */
  name: string;
  /** What it does and when to call it, for the model. */
  description?: string | undefined;
  /** A zod schema, any Standard Schema that gives JSON Schema, or JSON Schema. Left out: it takes nothing. */
  parameters?: ToolParameters | undefined;
  /** Must not change the state it is given, which is frozen, but return another. */
  run: (state: D, args: AnyArguments) => TaskToolResult<D> | Promise<TaskToolResult<D>>;
}

/** A call that changed the state. */
export interface TaskWrite {
  /** The turn that made the call. */
  turn: number;
  tool: string;
  arguments: unknown;
  /** Hashes of the state. */
  before: string;
  after: string;
}

export interface ReadTaskTool {
  tool: AnyTool;
  run: TaskTool["run"];
}

const schema = z.strictObject({
  name: z.string(),
  description: z.string().optional(),
  parameters: z.custom<ToolParameters>().optional(),
  run: z.custom<TaskTool["run"]>((value) => typeof value === "function", "a function was expected"),
});

export function readTaskTools(tools: readonly unknown[], where: string): ReadonlyMap<string, ReadTaskTool> {
  const read = new Map<string, ReadTaskTool>();
  for (const [i, one] of tools.entries()) {
    const { run, parameters, ...rest } = parseOptions(schema, one, `${where}.tools[${i}]`);
    const own = tool({ ...rest, ...(parameters !== undefined && { parameters }), execute: () => undefined });
    if (read.has(rest.name)) {
      throw new StatesetError("INVALID_OPTION", `Two tools of ${where} are called "${rest.name}".`, {
        hint: "Give one another name.",
      });
    }
    read.set(rest.name, { tool: own, run });
  }
  return read;
}

export function definitionsOf(tools: ReadonlyMap<string, ReadTaskTool>): ToolDefinition[] {
  return [...tools.values()].map((one) => one.tool.definition);
}

/** Calls of a reply that the environment answers. */
export function callsToAnswer(reply: Turn): readonly ToolCall[] {
  const own = callsOfAgent(reply);
  return (reply.tool_calls ?? []).filter(({ id }) => !own.includes(id));
}

export interface CallsOptions {
  tools: ReadonlyMap<string, ReadTaskTool>;
  state: AnyState;
  /** What was said before the reply. */
  turns: readonly Turn[];
  signal?: AbortSignal | undefined;
}

export interface CallsOutcome {
  state: AnyState;
  results: Turn[];
  writes: TaskWrite[];
}

/** Whatever goes wrong is a result of a named kind and changes nothing; only an abort throws. */
export async function runTaskCalls(
  calls: readonly ToolCall[],
  reply: Turn,
  options: CallsOptions,
): Promise<CallsOutcome> {
  const { turns, signal } = options;
  const problems = unreadableCalls(reply);
  let { state } = options;
  let next: AnyState;
  const bound = new Map<string, AnyTool>();
  for (const [name, { tool: own, run }] of options.tools) {
    const execute = async (args: unknown) => {
      const made = await answered(name, () => run(state, args));
      next = made.state === undefined ? state : frozenJson(made.state, "the state it returned");
      return made.result;
    };
    bound.set(name, { ...own, execute });
  }
  const results: Turn[] = [];
  const writes: TaskWrite[] = [];
  for (const call of calls) {
    const problem = problems[call.id];
    const request = [{ call, ...(problem !== undefined && { problem }) }];
    next = state;
    const [outcome] = await runCalls(request, { tools: bound, messages: [...turns, reply], signal });
    const [before, after] = [stateHash(state), stateHash(outcome!.failure === undefined ? next : state)];
    if (before !== after) {
      const { name, arguments: written } = call.function;
      writes.push({ turn: turns.length, tool: name, arguments: JSON.parse(written), before, after });
      state = next;
    }
    results.push(resultTurn(outcome!, { stateHash: after }));
  }
  return { state, results, writes };
}

async function answered(name: string, run: () => unknown): Promise<TaskToolResult> {
  let made: unknown;
  try {
    made = await run();
  } catch (error) {
    // Of Node: "Cannot assign to read only property 'x' of object", "Cannot add property", "object is not extensible", "Cannot delete".
    const frozen = /read only property|not extensible|Cannot (add|delete|redefine) property/;
    if (!(error instanceof TypeError && frozen.test(error.message))) throw error;
    throw new Error(`"${name}" changes the state it is given (${error.message}); it must return another`, {
      cause: error,
    });
  }
  if (typeof made === "object" && made !== null && "result" in made) {
    const other = Object.keys(made).find((key) => key !== "result" && key !== "state");
    if (other === undefined) return made as TaskToolResult;
    throw new Error(`"${name}" returned "${other}" beside result; the state after it is called "state"`);
  }
  throw new Error(`"${name}" returned no { result } or { state, result }`);
}

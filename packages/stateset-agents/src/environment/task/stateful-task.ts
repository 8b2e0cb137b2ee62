/** A task with a state: its form and its reading. */
import { z } from "zod";
import type { Message, MessageInput } from "../../conversation/message.ts";
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import { messageOf, StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { didYouMean } from "../../suggest.ts";
import { awaitsReply, openingShape, readOpening } from "../opening.ts";
import { scenarioShape } from "../parse-scenario.ts";
import type { Scenario } from "../scenario.ts";
import { callsNamedIn, type Declared, declaredShape, saysSomething } from "./declared.ts";
import { frozenJson } from "./json-state.ts";
import type { AnyState } from "./task-tool.ts";

/** As it is once it was read. */
export interface StatefulTask<D = AnyState> extends Scenario, Declared {
  goal: string;
  prompt?: string;
  messages?: readonly Message[];
  state: D;
  /** What the user says after the first words, in order; without a user of the environment's own. */
  turns?: readonly string[];
  /** The environment's tools that the agent is shown. */
  toolNames?: readonly string[];
}

/** As it is written. */
export interface StatefulTaskInput<D = AnyState> extends Omit<Scenario, "tools" | "goal">, Declared {
  /** What the user wants; the default of `prompt`. */
  goal?: string | undefined;
  /** What the user says first; a list of messages is the same as `messages`. */
  prompt?: string | readonly MessageInput[] | undefined;
  /** How the conversation began. Never learnt from. */
  messages?: readonly MessageInput[] | undefined;
  /** What the user says, in order: the first is the prompt where there is no other. */
  turns?: readonly string[] | undefined;
  /** What the world is in the beginning: plain JSON. Default `{}`. */
  state?: D | undefined;
  /** Names of the environment's tools that the agent is shown. Default: all. */
  tools?: readonly string[] | undefined;
  /** Same as `tools`. */
  toolNames?: readonly string[] | undefined;
}

const names = z.array(z.string().min(1)).optional();
const taskSchema = z.strictObject({
  ...scenarioShape,
  ...openingShape,
  ...declaredShape,
  goal: z.string().min(1).optional(),
  turns: z.array(z.string().refine((text) => text.trim() !== "", "an empty user turn")).optional(),
  state: z.unknown().optional(),
  tools: names,
  toolNames: names,
});

/** A tool of the environment, as far as declarations need it. */
export interface KnownTool {
  definition: ToolDefinition;
  /** Why no call can have arguments of which these are a part; empty where one can. */
  problemsOf(part: unknown): readonly string[];
}

export interface ReadTaskOptions {
  where: string;
  tools: ReadonlyMap<string, KnownTool>;
  /** Put before the task's own context. */
  policy: string | undefined;
  /** Whether somebody speaks for the user. */
  hasUser: boolean;
  /** Whether code decides, so that a task need not declare what it expects. */
  hasCheck: boolean;
}

export function readStatefulTask(value: unknown, options: ReadTaskOptions): StatefulTask {
  const { where, policy, hasUser, hasCheck } = options;
  const parsed = parseOptions(taskSchema, value, where, "INVALID_SCENARIO");
  const { prompt, messages, state = {}, tools, toolNames, turns, context, ...rest } = parsed;
  const refuse = (what: string, hint: string) => {
    throw new StatesetError("INVALID_SCENARIO", `${where} (${JSON.stringify(rest.id)}) ${what}.`, { hint });
  };
  if (tools && toolNames) refuse('has both "tools" and "toolNames"', "Keep one.");
  const shown = tools ?? toolNames;
  const { expected, forbidden } = callsNamedIn(rest);
  const named = [...expected, ...forbidden];
  for (const name of [...(shown ?? []), ...named.map((one) => one.tool)]) {
    if (!options.tools.has(name))
      refuse(`names the tool "${name}", which there is not`, didYouMean(name, [...options.tools.keys()]));
  }
  for (const { tool } of expected) {
    if (shown && !shown.includes(tool))
      refuse(`expects a call of "${tool}", which it does not show`, "Name it in the task's `tools` too.");
  }
  for (const { tool, arguments: given = {} } of named) {
    const known = argumentsOf(options.tools.get(tool)!.definition);
    const other = known && Object.keys(given).find((name) => !known.includes(name));
    if (other !== undefined)
      refuse(
        `names the argument "${other}", which "${tool}" does not take`,
        known!.length > 0 ? didYouMean(other, known!) : "It takes none.",
      );
  }
  // Forbidden ones may be such as fail: a call counts as tried either way.
  for (const { tool, arguments: given = {} } of expected) {
    const [problem] = options.tools.get(tool)!.problemsOf(given);
    if (problem !== undefined)
      refuse(
        `expects a call of "${tool}" that would fail: ${problem}`,
        "Arguments are written as the tool's parameters say.",
      );
  }
  if (!hasCheck && !saysSomething(rest)) {
    refuse("says nothing of what is right", "Give it `expect`, or the environment a `check`.");
  }
  if (turns && turns.length > 0 && hasUser) refuse("has `turns`, and the environment has a user", "Keep one.");
  const begun = prompt !== undefined || messages !== undefined;
  const opening = begun ? readOpening({ ...parsed, prompt, messages }, where) : {};
  if (opening.messages && !awaitsReply(opening.messages)) {
    refuse("has no user turn to answer", "End its messages with one of the user or a tool.");
  }
  const first = begun ? opening.prompt : (turns?.[0] ?? (hasUser ? undefined : rest.goal));
  if (first === undefined && !begun && !hasUser) refuse("has no user turn", "Give it a prompt, or turns, or a goal.");
  const later = begun ? turns : turns?.slice(1);
  const told =
    policy === undefined || context?.startsWith(policy) ? context : [policy, context].filter(Boolean).join("\n\n");
  return {
    ...rest,
    ...opening,
    goal: rest.goal ?? first ?? opening.messages?.findLast(({ role }) => role === "user")?.content ?? rest.id,
    ...(first !== undefined && { prompt: first }),
    ...(later && later.length > 0 && { turns: later }),
    ...(told !== undefined && { context: told }),
    ...(shown && { toolNames: shown }),
    state: frozen(state, where),
  } as StatefulTask;
}

/** Undefined where the schema leaves open what they are called. */
function argumentsOf({ function: { parameters = {} } }: ToolDefinition): string[] | undefined {
  const open = ["$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas"];
  if (typeof parameters.properties !== "object" || parameters.properties === null) return undefined;
  if (open.some((word) => word in parameters) || (parameters.additionalProperties ?? false) !== false) return undefined;
  return Object.keys(parameters.properties);
}

function frozen(state: unknown, where: string): unknown {
  try {
    return frozenJson(state, "state");
  } catch (error) {
    throw new StatesetError("INVALID_SCENARIO", `${where}: ${messageOf(error)}.`, {
      hint: "A task's state is plain JSON: objects, lists, texts, numbers, true, false and null.",
    });
  }
}

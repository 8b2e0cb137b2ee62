import { z } from "zod";
import type { MessageInput } from "../conversation/message.ts";
import { type TemplateVariables, templateVariablesSchema } from "../conversation/template-variables.ts";
import type { ToolDefinition } from "../conversation/tool-definition.ts";
import { toolsSchema } from "../conversation/tool-definition.ts";
import { StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import { awaitsReply, openingShape, readOpening } from "./opening.ts";
import type { ConversationScenario } from "./scenario.ts";

/** A scenario as users write it: the id may be left out, and Python's key names work. */
export interface ConversationScenarioInput {
  id?: string | undefined;
  topic?: string | undefined;
  context?: string | undefined;
  systemPrompt?: string | undefined;
  tools?: readonly ToolDefinition[] | undefined;
  templateVariables?: TemplateVariables | undefined;
  goal?: string | undefined;
  expected?: string | undefined;
  metadata?: Record<string, unknown> | undefined;
  userResponses?: readonly string[] | undefined;
  /** What the user says before `userResponses`; a list is the same as `messages`. */
  prompt?: string | readonly MessageInput[] | undefined;
  /**
   * How the conversation began. The agent goes on from there; nothing in it is learnt from. A system message at its head is the
   * scenario's `systemPrompt`.
   */
  messages?: readonly MessageInput[] | undefined;
  /** Same as `userResponses`. */
  user_responses?: readonly string[] | undefined;
  /** Same as `systemPrompt`. */
  system_prompt?: string | undefined;
  /** Same as `templateVariables`. */
  template_variables?: TemplateVariables | undefined;
}

const pythonNames: Readonly<Record<string, string>> = {
  user_responses: "userResponses",
  system_prompt: "systemPrompt",
  template_variables: "templateVariables",
};

/** What every scenario may have; spread into the strict schemas of each kind. */
export const scenarioShape = {
  id: z.string().min(1),
  topic: z.string().optional(),
  context: z.string().optional(),
  systemPrompt: z.string().optional(),
  tools: toolsSchema.optional(),
  templateVariables: templateVariablesSchema.optional(),
  goal: z.string().optional(),
  expected: z.string().optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
} as const;

const schema = z.strictObject({
  ...scenarioShape,
  ...openingShape,
  userResponses: z.array(z.string().refine((text) => text.trim() !== "", "an empty user turn")).optional(),
});

/** Checks one scenario. `where` says where it stands: "scenario 3", "file.jsonl, line 3". With a user it may leave the talking to that one. */
export function parseScenario(
  value: unknown,
  where: string,
  defaultId: string,
  { hasUser = false } = {},
): ConversationScenario {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new StatesetError("INVALID_SCENARIO", `${where} is not an object.`, { hint: example });
  }
  const renamed = withOneName(value as Record<string, unknown>, where, defaultId);
  const named = () => `${where} (${JSON.stringify(renamed.id)})`;
  const result = schema.safeParse(renamed);
  // Before the check for user turns: if their key is misspelt, that is what to say.
  const parsed = result.success ? result.data : parseOptions(schema, renamed, named(), "INVALID_SCENARIO");
  const scenario = withOpening(parsed, named);
  if (hasUser && scenario.userResponses.length > (awaitsReply(scenario.messages) ? 0 : 1)) {
    const hint = "Keep one: of a user of its own, the scenario says the first words at most.";
    throw new StatesetError("INVALID_SCENARIO", `${named()} has userResponses, and the environment has a user.`, {
      hint,
    });
  }
  if (hasUser || scenario.userResponses.length > 0 || awaitsReply(scenario.messages)) return scenario;
  throw new StatesetError("INVALID_SCENARIO", `${named()} has no user turn${scenario.messages ? " to answer" : ""}.`, {
    hint: scenario.messages ? "End its messages with one of the user or a tool, or add userResponses." : example,
  });
}

/** The scenario as it is where all its names are ours: of many thousands, a copy each would be felt. */
function withOneName(value: Record<string, unknown>, where: string, defaultId: string): Record<string, unknown> {
  const foreign = Object.keys(value).some((key) => Object.hasOwn(pythonNames, key));
  if (!foreign && value.id !== undefined) return value;
  const renamed: Record<string, unknown> = { id: defaultId };
  for (const [key, part] of Object.entries(value)) {
    const name = pythonNames[key] ?? key;
    if (name !== key && name in value) {
      throw new StatesetError("INVALID_SCENARIO", `${where} has both "${key}" and "${name}".`, { hint: "Keep one." });
    }
    if (part !== undefined) renamed[name] = part;
  }
  return renamed;
}

/** A text, or a list that is one message of the user, is the first of the user's turns. */
function withOpening(parsed: z.output<typeof schema>, named: () => string): ConversationScenario {
  parsed.userResponses ??= [];
  if (parsed.prompt === undefined && parsed.messages === undefined) return parsed as ConversationScenario;
  const { prompt: _, messages: __, userResponses, ...rest } = parsed;
  const opening = readOpening(parsed, named());
  const only = opening.messages?.length === 1 ? opening.messages[0]! : undefined;
  const plain = only?.role === "user" && Object.keys(only).length === 2 ? only.content : opening.prompt;
  const system = opening.systemPrompt !== undefined && { systemPrompt: opening.systemPrompt };
  const scenario = { ...rest, ...system, userResponses: [...(plain === undefined ? [] : [plain]), ...userResponses] };
  return (plain === undefined ? { ...scenario, messages: opening.messages } : scenario) as ConversationScenario;
}

const example = 'Give at least one: {"id": "refund", "userResponses": ["My order is late.", "Thanks."]}.';

/** Two scenarios of one name could not be told apart in results. */
export function requireDistinctIds(scenarios: readonly { id: string }[], where: (index: number) => string): void {
  const seen = new Map<string, number>();
  for (const [i, { id }] of scenarios.entries()) requireNewId(id, seen, i, where);
}

/** `seen` are those before it, and where they stand. */
export function requireNewId(
  id: string,
  seen: Map<string, number>,
  place: number,
  where: (place: number) => string,
): void {
  const first = seen.get(id);
  if (first !== undefined) {
    throw new StatesetError("INVALID_SCENARIO", `${where(place)} has the id "${id}", which ${where(first)} has too.`, {
      hint: "Give each scenario its own id.",
    });
  }
  seen.set(id, place);
}

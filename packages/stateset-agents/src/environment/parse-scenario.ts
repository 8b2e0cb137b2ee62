import { z } from "zod";
import { type TemplateVariables, templateVariablesSchema } from "../conversation/template-variables.ts";
import type { ToolDefinition } from "../conversation/tool-definition.ts";
import { toolsSchema } from "../conversation/tool-definition.ts";
import { StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
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
  userResponses: z.array(z.string().refine((text) => text.trim() !== "", "an empty user turn")).optional(),
});

/** Checks one scenario. `where` says where it stands: "scenario 3", "file.jsonl, line 3". */
export function parseScenario(value: unknown, where: string, defaultId: string): ConversationScenario {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new StatesetError("INVALID_SCENARIO", `${where} is not an object.`, { hint: example });
  }
  const renamed: Record<string, unknown> = { id: defaultId };
  for (const [key, part] of Object.entries(value)) {
    const name = pythonNames[key] ?? key;
    if (name !== key && name in value) {
      throw new StatesetError("INVALID_SCENARIO", `${where} has both "${key}" and "${name}".`, { hint: "Keep one." });
    }
    if (part !== undefined) renamed[name] = part;
  }
  const named = `${where} (${JSON.stringify(renamed.id)})`;
  // Before the check for user turns: if their key is misspelt, that is what to say.
  const parsed = parseOptions(schema, renamed, named, "INVALID_SCENARIO");
  if (!parsed.userResponses?.length) {
    throw new StatesetError("INVALID_SCENARIO", `${named} has no user turn.`, { hint: example });
  }
  return parsed as ConversationScenario;
}

const example = 'Give at least one: {"id": "refund", "userResponses": ["My order is late.", "Thanks."]}.';

/** Two scenarios of one name could not be told apart in results. */
export function requireDistinctIds(scenarios: readonly { id: string }[], where: (index: number) => string): void {
  const seen = new Map<string, number>();
  for (const [i, { id }] of scenarios.entries()) {
    const first = seen.get(id);
    if (first !== undefined) {
      throw new StatesetError("INVALID_SCENARIO", `${where(i)} has the id "${id}", which ${where(first)} has too.`, {
        hint: "Give each scenario its own id.",
      });
    }
    seen.set(id, i);
  }
}

import { z } from "zod";
import { nearest } from "../suggest.ts";

/** A function a model may call, in the OpenAI format. `parameters` is a JSON schema; without it the function takes none. */
export interface ToolDefinition {
  type: "function";
  function: { name: string; description?: string; parameters?: Record<string, unknown> };
}

const functionShape = {
  name: z.string().min(1),
  description: z.string().optional(),
  parameters: z.record(z.string(), z.unknown()).optional(),
};

/** What the library does not know of a tool (`strict`, …) is passed on to the chat template; but not what was meant for a word it knows. */
export const toolDefinitionSchema = z.looseObject({
  type: z.literal("function"),
  function: z.looseObject(functionShape).superRefine((given, { addIssue }) => {
    for (const [key, value] of Object.entries(given)) {
      const meant = Object.hasOwn(functionShape, key) ? undefined : meantBy(key, value, given);
      if (meant !== undefined)
        addIssue({ code: "custom", message: `"${key}" is not known: write "${meant}"`, input: given });
    }
  }),
}) as unknown as z.ZodType<ToolDefinition>;

/** A schema by another name (`params`, `input_schema`, …) is one that no model would be shown. */
function meantBy(key: string, value: unknown, { parameters }: Record<string, unknown>): string | undefined {
  const isSchema = typeof value === "object" && value !== null && !Array.isArray(value);
  return nearest(key, Object.keys(functionShape)) ?? (isSchema && parameters === undefined ? "parameters" : undefined);
}

export const toolsSchema: z.ZodType<ToolDefinition[]> = z.array(toolDefinitionSchema);

/** Templates print what the parameters are called, also where there are none. */
export function withProperties(tool: ToolDefinition): ToolDefinition {
  const parameters = { type: "object", properties: {}, ...tool.function.parameters };
  return { ...tool, function: { ...tool.function, parameters } };
}

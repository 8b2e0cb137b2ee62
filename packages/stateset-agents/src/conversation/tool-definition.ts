import { z } from "zod";

/** A function a model may call, in the OpenAI format. `parameters` is a JSON schema; without it the function takes none. */
export interface ToolDefinition {
  type: "function";
  function: { name: string; description?: string; parameters?: Record<string, unknown> };
}

/** What the library does not know of a tool (`strict`, …) is passed on to the chat template. */
export const toolDefinitionSchema = z.looseObject({
  type: z.literal("function"),
  function: z.looseObject({
    name: z.string().min(1),
    description: z.string().optional(),
    parameters: z.record(z.string(), z.unknown()).optional(),
  }),
}) as unknown as z.ZodType<ToolDefinition>;

export const toolsSchema: z.ZodType<ToolDefinition[]> = z.array(toolDefinitionSchema);

/** Templates print what the parameters are called, also where there are none. */
export function withProperties(tool: ToolDefinition): ToolDefinition {
  const parameters = { type: "object", properties: {}, ...tool.function.parameters };
  return { ...tool, function: { ...tool.function, parameters } };
}

import { z } from "zod";
import type { ToolDefinition } from "./message.ts";

/** Tools as OpenAI defines them. What the library does not know of them (`strict`, …) is passed on to the chat template. */
export const toolsSchema: z.ZodType<ToolDefinition[]> = z.array(
  z.looseObject({
    type: z.literal("function"),
    function: z.looseObject({
      name: z.string().min(1),
      description: z.string().optional(),
      parameters: z.record(z.string(), z.unknown()),
    }),
  }) as unknown as z.ZodType<ToolDefinition>,
);

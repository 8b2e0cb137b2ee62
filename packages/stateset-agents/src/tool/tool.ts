import { z } from "zod";
import type { Message } from "../conversation/message.ts";
import type { ToolDefinition } from "../conversation/tool-definition.ts";
import { parseOptions } from "../options.ts";
import { type ArgumentsOf, type Checked, readParameters, type ToolParameters } from "./parameters.ts";

/** What a tool is told of its call. */
export interface ToolContext {
  /** Fires when the conversation stops or the tool took too long. */
  signal: AbortSignal;
  callId: string;
  conversationId?: string;
  /** The conversation up to the call. */
  messages: readonly Message[];
}

/** Something an agent can do. */
export interface Tool<A = never, R = unknown> {
  readonly definition: ToolDefinition;
  readonly timeoutMs: number;
  readonly retries: number;
  readonly needsApproval: boolean | ((args: A, context: ToolContext) => boolean | Promise<boolean>);
  /** Whether arguments fit, and what `execute` gets then. */
  check(args: unknown): Promise<Checked<A>>;
  execute(args: A, context: ToolContext): R | Promise<R>;
}

export interface ToolOptions<P extends ToolParameters = ToolParameters, R = unknown> {
  /** Letters, digits, `_`, `.` and `-`, beginning with a letter or `_`. */
  name: string;
  /** What it does and when to call it, for the model. */
  description?: string | undefined;
  /** A zod schema, any Standard Schema that gives JSON Schema, or JSON Schema. Left out: it takes nothing. */
  parameters?: P;
  /** What it returns the model reads: text as it is, anything else as JSON. */
  execute: (args: ArgumentsOf<P>, context: ToolContext) => R | Promise<R>;
  /** Default 30,000. */
  timeoutMs?: number | undefined;
  /** How often it is tried again after it threw or took too long. Default 0. */
  retries?: number | undefined;
  /** Whether the agent's `approve` is asked before it runs. Default false. */
  needsApproval?: boolean | ((args: ArgumentsOf<P>, context: ToolContext) => boolean | Promise<boolean>) | undefined;
}

const isFunction = (value: unknown) => typeof value === "function";

export const toolName = z
  .string()
  .regex(
    /^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/,
    "a name of 1 to 64 letters, digits, _, . and - was expected, beginning with a letter or _",
  );

const toolSchema = z.strictObject({
  name: toolName,
  description: z.string().optional(),
  parameters: z.custom<ToolParameters>((value) => typeof value === "object" || isFunction(value)).optional(),
  execute: z.custom<Tool["execute"]>(isFunction, "a function was expected"),
  timeoutMs: z
    .number()
    .positive()
    .max(2 ** 31 - 1)
    .default(30_000),
  retries: z.int().min(0).default(0),
  needsApproval: z
    .union([z.boolean(), z.custom<() => boolean>(isFunction)], "true, false or a function was expected")
    .default(false),
});

/**
 * A function that a model may call.
 *
 * @example
 * const weather = tool({
 *   name: "get_weather",
 *   description: "The weather in a city",
 *   parameters: z.object({ city: z.string() }),
 *   execute: async ({ city }) => fetchWeather(city),
 * });
 */
export function tool<const P extends ToolParameters, R>(options: ToolOptions<P, R>): Tool<ArgumentsOf<P>, R> {
  const parsed = parseOptions(toolSchema, options, "tool");
  const { name, description, parameters, execute, timeoutMs, retries, needsApproval } = parsed;
  const { schema, check } = readParameters(parameters, `parameters of the tool "${name}"`);
  const definition: ToolDefinition = {
    type: "function",
    function: { name, ...(description !== undefined && { description }), parameters: schema },
  };
  return { definition, timeoutMs, retries, needsApproval, check, execute } as unknown as Tool<ArgumentsOf<P>, R>;
}

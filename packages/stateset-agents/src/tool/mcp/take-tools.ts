/** Makes tools of what a server lists. One that cannot be used costs nothing but itself. */
import type { CallToolResult, Tool as ServerTool } from "@modelcontextprotocol/client";
import { z } from "zod";
import { messageOf, StatesetError } from "../../error.ts";
import { parseOptions } from "../../options.ts";
import { compileSchema } from "../schema/compile-schema.ts";
import { type Tool, tool } from "../tool.ts";
import { mostSchemaCharacters } from "./limits.ts";
import type { ReadOptions } from "./options.ts";
import { contentText } from "./result-text.ts";

export interface LeftOutTool {
  name: string;
  problem: string;
}

export interface TakenTools {
  /** By the names the server has for them. */
  tools: ReadonlyMap<string, Tool<Record<string, unknown>>>;
  leftOut: readonly LeftOutTool[];
}

export type CallServer = (
  definition: ServerTool,
  args: Record<string, unknown>,
  signal: AbortSignal,
) => Promise<CallToolResult>;

/** What is needed of a tool; anything else about it is the server's business. */
const listedSchema = z.looseObject({
  name: z.string(),
  description: z.string().optional(),
  inputSchema: z.record(z.string(), z.unknown()),
  outputSchema: z.record(z.string(), z.unknown()).optional(),
  execution: z.looseObject({ taskSupport: z.string().optional() }).optional(),
});
type Listed = z.output<typeof listedSchema>;

export type TakeOptions = ReadOptions & {
  /** Of the server: it may put secrets that it was told into what it says went wrong. */
  redact(text: string): string;
};

export function takeTools(listed: readonly unknown[], options: TakeOptions, call: CallServer): TakenTools {
  const tools = new Map<string, Tool<Record<string, unknown>>>();
  const leftOut: LeftOutTool[] = [];
  let characters = 0;
  for (const [i, value] of listed.entries()) {
    const name = nameOf(value) ?? `number ${i + 1}`;
    if (options.only && !options.only.includes(name)) continue;
    try {
      if (tools.has(name)) throw new Error("Another one before it has this name.");
      const own = parseOptions(listedSchema, value, name);
      // What is too large for itself is refused before any work is done.
      characters += Math.min(JSON.stringify([own.inputSchema, own.outputSchema]).length, mostSchemaCharacters / 4);
      if (characters > mostSchemaCharacters)
        throw new Error(`With it the schemas of the server's tools have more than ${mostSchemaCharacters} characters.`);
      tools.set(name, toolOf(own, options, call));
    } catch (error) {
      leftOut.push({ name, problem: problemOf(error) });
    }
  }
  return { tools, leftOut };
}

/** Without the hint: nobody here can change what the server says. */
function problemOf(error: unknown): string {
  const hint = StatesetError.isInstance(error) ? error.hint : undefined;
  const message = messageOf(error);
  return hint === undefined ? message : message.slice(0, -hint.length).trim();
}

export function nameOf(value: unknown): string | undefined {
  const { name } = (value ?? {}) as { name?: unknown };
  return typeof name === "string" ? name : undefined;
}

function toolOf(listed: Listed, options: TakeOptions, call: CallServer): Tool<Record<string, unknown>> {
  const { name: own, description, inputSchema, outputSchema, execution } = listed;
  if (execution?.taskSupport === "required") throw new Error("It runs as a task only, and tasks are not supported.");
  const name = options.prefix + own;
  const { timeoutMs, retries, needsApproval: needs } = options;
  const problemsOf = outputSchema && compileSchema(outputSchema, `the output schema of the tool "${own}"`);
  return tool({
    name,
    ...(description !== undefined && { description }),
    parameters: inputSchema,
    timeoutMs,
    retries,
    needsApproval: typeof needs === "function" ? (args, context) => needs({ name, arguments: args, context }) : needs,
    async execute(args, { signal }) {
      const result = await call(listed as unknown as ServerTool, args, signal);
      const text = contentText(result);
      if (result.isError) throw new Error(options.redact(text ?? "the server does not say why"));
      if (problemsOf) {
        const problems = problemsOf(result.structuredContent, "its result");
        if (problems.length > 0) throw new Error(`it answers otherwise than it says: ${problems.join("; ")}`);
      }
      return text;
    },
  });
}

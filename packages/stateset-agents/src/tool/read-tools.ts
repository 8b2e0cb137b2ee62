/** Tools in the forms people have them: of tool(), as definitions alone, of the Python library, of the AI SDK. */
import type { ToolDefinition } from "../conversation/tool-definition.ts";
import { toolDefinitionSchema } from "../conversation/tool-definition.ts";
import { StatesetError } from "../error.ts";
import { parseOptions, pick } from "../options.ts";
import { nearest } from "../suggest.ts";
import { isStandard, readParameters, type StandardSchema, type ToolParameters } from "./parameters.ts";
import type { JsonSchema } from "./schema/compile-schema.ts";
import { type Tool, type ToolContext, tool, toolName } from "./tool.ts";

/** The Python library's form. */
export interface NamedFunction {
  name: string;
  description?: string;
  parameters?: ToolParameters;
  function: (args: never) => unknown;
}

/** A tool of the AI SDK, which is known by its key. */
export interface SdkTool {
  description?: string;
  inputSchema: StandardSchema | JsonSchema | { jsonSchema: unknown } | (() => unknown);
  execute?: ((input: never, options: never) => unknown) | undefined;
  needsApproval?: boolean | ((input: never, options: never) => boolean | PromiseLike<boolean>) | undefined;
  timeoutMs?: number | undefined;
  retries?: number | undefined;
}

// biome-ignore lint/suspicious/noExplicitAny: arguments are of any type, each tool's own.
type AnyTool = Tool<any>;
/** A list of tools, or tools by name. A definition alone is shown to the model, and its calls are left to the environment. */
export type ToolsInput =
  | readonly (AnyTool | ToolDefinition | NamedFunction)[]
  | Readonly<Record<string, AnyTool | SdkTool>>;

export interface ReadTools {
  /** All of them, for the model. */
  definitions: ToolDefinition[];
  /** Those that can be run, by name. */
  runnable: ReadonlyMap<string, AnyTool>;
}

/** `where` names them in errors. */
export function readTools(input: ToolsInput, where = "tools"): ReadTools {
  if (isTool(input) || input instanceof Map || input instanceof Set) {
    throw new StatesetError("INVALID_OPTION", `${where} is neither a list of tools nor an object of tools by name.`, {
      hint: "Put them in a list: tools: [getOrder, cancelOrder].",
    });
  }
  const entries: [string | undefined, unknown][] = Array.isArray(input)
    ? input.map((one) => [undefined, one])
    : Object.entries(input);
  const definitions: ToolDefinition[] = [];
  const runnable = new Map<string, AnyTool>();
  for (const [i, [key, value]] of entries.entries()) {
    const one = readOne(value, key, key === undefined ? `${where}[${i}]` : `${where}.${key}`);
    const { definition } = one;
    const { name } = definition.function;
    if (key !== undefined && key !== name) {
      throw new StatesetError("INVALID_OPTION", `${where}.${key} is a tool of another name, "${name}".`, {
        hint: `The model would call it "${name}": write { ${JSON.stringify(name)}: … }, or put it in a list.`,
      });
    }
    if (definitions.some((other) => other.function.name === name)) {
      throw new StatesetError("INVALID_OPTION", `Two tools are called "${name}".`, {
        hint: 'Give one another name; the tools of an MCP server get one by mcpTools(server, { prefix: "other_" }).',
      });
    }
    definitions.push(definition);
    if ("execute" in one) runnable.set(name, one);
  }
  return { definitions, runnable };
}

function readOne(value: unknown, key: string | undefined, where: string): AnyTool | { definition: ToolDefinition } {
  if (isObject(value)) {
    if (isTool(value)) return value;
    if ("inputSchema" in value) return fromSdk(value as unknown as SdkTool, key, where);
    if (typeof value.function === "function") return fromFunction(value as unknown as NamedFunction);
    if (value.type === "function" && isObject(value.function)) return { definition: readDefinition(value, where) };
  }
  throw noTool(value, where);
}

/** Shown to the model as it is, so it is held to what tool() is held to. */
function readDefinition(value: unknown, where: string): ToolDefinition {
  const definition = parseOptions(toolDefinitionSchema, value, where);
  const { name, parameters } = definition.function;
  parseOptions(toolName, name, `${where}.function.name`);
  readParameters(parameters, `${where}.function.parameters`);
  return definition;
}

function noTool(value: unknown, where: string): StatesetError {
  const { name, execute } = isObject(value) ? value : {};
  const called = typeof name === "string" ? ` ("${name}")` : "";
  const made = "tool({ name, parameters, execute })";
  const hint =
    typeof execute === "function"
      ? `Put it into tool(): ${made}.`
      : `Make one with ${made}, or give { type: "function", function: { name, parameters } } to have it shown alone.`;
  return new StatesetError("INVALID_OPTION", `${where}${called} is no tool.`, { hint });
}

function fromFunction({ function: execute, ...rest }: NamedFunction): AnyTool {
  return tool({ ...rest, execute: (args: unknown) => execute(args as never) });
}

function fromSdk(sdk: SdkTool, name: string | undefined, where: string) {
  const { description, inputSchema, execute, needsApproval: needs } = sdk;
  if (name === undefined) {
    throw new StatesetError("INVALID_OPTION", `${where} has no name.`, {
      hint: "Tools of the AI SDK are given by name: tools: { weather: tool({ … }) }.",
    });
  }
  const shown = { name, description, parameters: parametersOfSdk(inputSchema, where) };
  if (!execute) {
    const meant = Object.keys(sdk).find((key) => nearest(key, ["execute"]) !== undefined);
    if (meant !== undefined) {
      throw new StatesetError("INVALID_OPTION", `${where} has "${meant}" and no "execute".`, {
        hint: `Did you mean "execute"? Without it the tool is shown alone.`,
      });
    }
    const { definition } = tool({ ...shown, execute: () => undefined });
    return { definition };
  }
  const options = ({ callId, signal, messages }: ToolContext) =>
    ({ toolCallId: callId, abortSignal: signal, messages }) as never;
  return tool({
    ...shown,
    ...pick(sdk, ["timeoutMs", "retries"]),
    needsApproval:
      typeof needs === "function"
        ? async (args: unknown, context: ToolContext) => needs(args as never, options(context))
        : needs,
    execute: (args: unknown, context: ToolContext) => execute(args as never, options(context)),
  });
}

/** The AI SDK takes a Standard Schema, `jsonSchema({ … })`, or a function that makes either; JSON Schema itself is what MCP has there. */
function parametersOfSdk(given: unknown, where: string): ToolParameters {
  if (isStandard(given)) return given;
  if (typeof given === "function") return parametersOfSdk(given(), where);
  const schema = isObject(given) && "jsonSchema" in given ? given.jsonSchema : given;
  if (isObject(schema) && !("then" in schema)) return schema;
  throw new StatesetError("INVALID_OPTION", `${where}.inputSchema is no schema that can be read at once.`, {
    hint: "Give a zod schema, jsonSchema({ … }) or JSON Schema; one that is still to come is awaited first.",
  });
}

function isTool(value: unknown): value is AnyTool {
  return isObject(value) && "definition" in value && "check" in value;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

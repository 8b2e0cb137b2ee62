import { jsonSchema, tool as sdkTool } from "ai";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import { readTools, type ToolsInput } from "./read-tools.ts";
import { tool } from "./tool.ts";

const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] } as const;
const shown = (definition: object) => ({ type: "function", function: definition });
const context = { signal: new AbortController().signal, callId: "a", messages: [] };

describe("a tool", () => {
  it("shows the model the JSON Schema of what it takes", () => {
    const parameters = z.object({ city: z.string().describe("where"), days: z.int().optional() });
    const { definition } = tool({ name: "weather", description: "The weather", parameters, execute: () => "sun" });
    expect(definition).toEqual({
      type: "function",
      function: {
        name: "weather",
        description: "The weather",
        parameters: expect.objectContaining({
          type: "object",
          properties: {
            city: { type: "string", description: "where" },
            days: expect.objectContaining({ type: "integer" }),
          },
          required: ["city"],
        }),
      },
    });
  });

  it("has arguments of the type that its schema says", () => {
    tool({
      name: "typed",
      parameters: z.object({ city: z.string(), days: z.number().default(1) }),
      execute(args) {
        expectTypeOf(args).toEqualTypeOf<{ city: string; days: number }>();
      },
    });
    tool({
      name: "json",
      parameters: schema,
      execute(args) {
        expectTypeOf(args).toEqualTypeOf<Record<string, unknown>>();
      },
    });
  });

  it.each<[string, object, string]>([
    ["no name", { execute: () => 1 }, "name"],
    ["a name with a space", { name: "a b", execute: () => 1 }, "letters, digits"],
    ["no code", { name: "a" }, "execute"],
    ["approval in words", { name: "a", execute: () => 1, needsApproval: "yes" }, "true, false or a function"],
    ["an option that is none", { name: "a", execute: () => 1, timeout: 5 }, "timeoutMs"],
    [
      "parameters that are no schema",
      { name: "a", execute: () => 1, parameters: { type: "text" } },
      "data/type must be",
    ],
    [
      "parameters without z.object",
      { name: "a", execute: () => 1, parameters: { city: z.string() } },
      "z.object({ city",
    ],
    ["parameters without properties", { name: "a", execute: () => 1, parameters: { city: {} } }, 'no "properties"'],
    [
      "an enum without end",
      { name: "a", execute: () => 1, parameters: { enum: Array.from({ length: 200_000 }, (_, i) => i) } },
      "are the limit",
    ],
    ["parameters that are a list", { name: "a", execute: () => 1, parameters: { type: "array" } }, "given by name"],
    [
      "parameters without a JSON form",
      { name: "a", execute: () => 1, parameters: z.object({ d: z.date() }) },
      "JSON Schema",
    ],
  ])("with %s is refused", (_, options, reason) => {
    expect(() => tool(options as never)).toThrow(reason);
  });
});

describe("tools", () => {
  it("come as a list of tools, definitions and named functions", async () => {
    const { definitions, runnable } = readTools([
      tool({ name: "a", execute: () => 1 }),
      { type: "function", function: { name: "b", parameters: schema } },
      { name: "c", parameters: schema, function: ({ city }: { city: string }) => `sun in ${city}` },
    ]);
    expect(definitions.map((one) => one.function.name)).toEqual(["a", "b", "c"]);
    expect([...runnable.keys()]).toEqual(["a", "c"]);
    expect(await runnable.get("c")!.execute({ city: "Rome" }, context)).toBe("sun in Rome");
  });

  it("come by their own names, and definitions with what a template may know of them", () => {
    expect(readTools({ a: tool({ name: "a", execute: () => 1 }) }).definitions).toHaveLength(1);
    const strict = shown({ name: "b", parameters: schema, strict: true });
    expect(readTools([strict] as never).definitions).toEqual([strict]);
  });

  it("come by name, as the AI SDK has them", async () => {
    const { definitions, runnable } = readTools({
      weather: {
        description: "The weather",
        inputSchema: z.object({ city: z.string() }),
        execute: async ({ city }: { city: string }, { toolCallId }: { toolCallId: string }) => `${city} ${toolCallId}`,
      },
      plain: { inputSchema: { jsonSchema: schema }, execute: () => 1 },
      shown: { inputSchema: z.object({}) },
    });
    expect(definitions.map((one) => one.function.name)).toEqual(["weather", "plain", "shown"]);
    expect([...runnable.keys()]).toEqual(["weather", "plain"]);
    expect(await runnable.get("weather")!.execute({ city: "Rome" }, context)).toBe("Rome a");
    expect(await runnable.get("weather")!.check({})).toMatchObject({ ok: false });
    expect(await runnable.get("plain")!.check({})).toEqual({ ok: false, problems: ["arguments.city is missing"] });
  });

  it("made by the AI SDK itself fit, with and without code", async () => {
    const made = {
      weather: sdkTool({
        description: "The weather",
        inputSchema: z.object({ city: z.string() }),
        needsApproval: true,
        execute: async ({ city }, { toolCallId }) => `${city} ${toolCallId}`,
      }),
      plain: sdkTool({ inputSchema: jsonSchema<{ city: string }>(schema as never), execute: ({ city }) => city }),
      shown: sdkTool({ inputSchema: z.object({}) }),
    };
    expectTypeOf(made).toExtend<ToolsInput>();
    const { definitions, runnable } = readTools(made);
    expect(definitions.map((one) => one.function.name)).toEqual(["weather", "plain", "shown"]);
    expect([...runnable.keys()]).toEqual(["weather", "plain"]);
    expect(await runnable.get("weather")!.execute({ city: "Rome" }, context)).toBe("Rome a");
    expect(runnable.get("weather")!.needsApproval).toBe(true);
    expect(await runnable.get("plain")!.check({})).toEqual({ ok: false, problems: ["arguments.city is missing"] });
  });

  it("of the AI SDK are asked for approval and stopped as they say, and their schema is taken in every form", async () => {
    const needsApproval = (input: { city: string }, { toolCallId }: { toolCallId: string }) =>
      input.city === "Rome" && toolCallId === "a";
    const execute = () => 1;
    const { definitions, runnable } = readTools({
      asked: { inputSchema: z.object({ city: z.string() }), execute, needsApproval },
      always: { inputSchema: { jsonSchema: schema }, execute, needsApproval: true, timeoutMs: 5, retries: 2 },
      plain: { inputSchema: schema, execute },
      lazy: { inputSchema: () => ({ jsonSchema: schema }), execute },
    });
    const asked = runnable.get("asked")!.needsApproval as (args: unknown, of: typeof context) => Promise<boolean>;
    expect(await asked({ city: "Rome" }, context)).toBe(true);
    expect(await asked({ city: "Oslo" }, context)).toBe(false);
    expect(runnable.get("always")).toMatchObject({ needsApproval: true, timeoutMs: 5, retries: 2 });
    expect(runnable.get("plain")).toMatchObject({ needsApproval: false, timeoutMs: 30_000, retries: 0 });
    expect(definitions.slice(1).map((one) => one.function.parameters)).toEqual([schema, schema, schema]);
  });

  it.each<[string, unknown, string]>([
    ["one that is in no list", tool({ name: "a", execute: () => 1 }), "Put them in a list"],
    ["a Map", new Map([["a", tool({ name: "a", execute: () => 1 })]]), "Put them in a list"],
    ["an AI SDK tool without a schema", { a: { inputSchema: null, execute: () => 1 } }, "tools.a.inputSchema"],
    [
      "an AI SDK tool whose schema is still to come",
      { a: { inputSchema: { jsonSchema: Promise.resolve(schema) }, execute: () => 1 } },
      "awaited first",
    ],
    [
      "two of one name",
      [tool({ name: "a", execute: () => 1 }), tool({ name: "a", execute: () => 2 })],
      'Two tools are called "a"',
    ],
    ["what is none", [{ name: "a" }], 'tools[0] ("a") is no tool. Make one with tool('],
    ["what tool() has not made", [{ name: "a", execute: () => 1 }], "Put it into tool()"],
    ["a definition without its function", [{ type: "function", name: "a", parameters: schema }], "function: { name"],
    ["a definition with a name that is none", [shown({ name: "a b" })], "tools[0].function.name"],
    [
      "a definition whose parameters are no schema",
      [shown({ name: "a", parameters: { type: "text" } })],
      "tools[0].function.parameters is no JSON schema",
    ],
    ["a definition with misspelt parameters", [shown({ name: "a", paramters: schema })], 'write "parameters"'],
    [
      "a definition with parameters of another name",
      [shown({ name: "a", params: schema })],
      'Invalid value for tools[0].function: "params" is not known: write "parameters".',
    ],
    [
      "a tool by another name than its own",
      { weather: tool({ name: "get_weather", execute: () => 1 }) },
      'tools.weather is a tool of another name, "get_weather"',
    ],
    [
      "an AI SDK tool with a misspelt execute",
      { a: { inputSchema: schema, excute: () => 1 } },
      'tools.a has "excute" and no "execute". Did you mean',
    ],
    ["nothing", [null], "tools[0] is no tool"],
    ["an AI SDK tool without a name", [{ inputSchema: z.object({}) }], "by name"],
  ])("refuse %s", (_, input, reason) => {
    expect(() => readTools(input as never)).toThrow(reason);
  });
});

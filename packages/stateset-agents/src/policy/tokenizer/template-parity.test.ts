import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import type { Message } from "../../conversation/message.ts";
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import { createTemplateRenderer } from "./chat-template.ts";
import { assistant, system, user } from "./fixtures/conversations.ts";
import { realTokenizer } from "./fixtures/tokenizer-folders.ts";
import { attempt } from "./reply-tail.ts";

const python = process.env.STATESET_PYTHON;
const script = fileURLToPath(new URL("./fixtures/reference_prompts.py", import.meta.url));
const tokens = { bos_token: "<s>", eos_token: "</s>", pad_token: "<pad>", unk_token: "<unk>" };

/** Spaced as Python does, so that it does not matter whether a template prints the text or the object. */
const call = (args: string) => ({
  id: "callprobe",
  type: "function" as const,
  function: { name: "weather", arguments: args },
});
const result = (content: string): Message => ({ role: "tool", content, name: "weather", tool_call_id: "callprobe" });
const tools: ToolDefinition[] = [
  {
    type: "function",
    function: {
      name: "weather",
      description: 'Tells the "weather" & more.',
      parameters: {
        type: "object",
        properties: {
          city: { type: "string", description: "Where, e.g. Zürich", enum: ["Zürich", "Rome"] },
          days: { type: "integer", default: 3, minimum: 1 },
          places: { type: "array", items: { type: "number" } },
          nested: { type: "object", properties: { deep: { type: ["string", "null"] } }, required: ["deep"] },
        },
        required: ["city"],
      },
    },
  },
];

interface Conversation {
  messages: Message[];
  tools: ToolDefinition[];
  variables: Record<string, unknown>;
}
const plain = { tools: [], variables: {} };
const conversations: Conversation[] = [
  { messages: [user("Hi")], ...plain },
  { messages: [system("  Be brief. "), user("\nHi ü🙂 "), assistant(" Yes.\n"), user("Bye")], ...plain },
  {
    messages: [user("Question one"), assistant("<think>\nHm.\n</think>\n\nYes </think> no."), user("Question two")],
    ...plain,
  },
  { messages: [user("Question one"), assistant("Yes.", { reasoning: "\nHm. " }), user("Question two")], ...plain },
  {
    messages: [user("/no_think Question one"), assistant("A"), user("Question two")],
    tools: [],
    variables: { enable_thinking: false },
  },
  { messages: [user("Weather?")], tools, variables: {} },
  { messages: [system("Be brief."), user("Weather?")], tools, variables: { enable_thinking: true } },
  {
    messages: [
      user("Weather?"),
      assistant("", { tool_calls: [call('{"city": "Zürich", "days": 2}')] }),
      result('{"sun": true}'),
    ],
    tools,
    variables: {},
  },
  {
    messages: [
      system("Be brief."),
      user("Weather?"),
      assistant("I look.", {
        reasoning: "Look.",
        tool_calls: [call('{"city": "Rome", "nested": {"deep": null}, "places": [1.5, 2]}')],
      }),
      result("rain"),
      assistant("Rain."),
      user("And then?"),
    ],
    tools,
    variables: { enable_thinking: false },
  },
];

interface Answer {
  template: string;
  /** What transformers prints with tool arguments as objects, and with their text; null where the template refuses. */
  rendered: [string | null, string | null][];
}

function askTransformers(): Record<string, Answer> {
  const configs = (["llama3_2", "qwen3"] as const).map((name) => join(realTokenizer(name), "tokenizer_config.json"));
  const named = conversations.map(({ messages, ...others }) => {
    return { ...others, messages: messages.map(({ reasoning, ...m }) => ({ ...m, reasoning_content: reasoning })) };
  });
  const input = JSON.stringify({ configs, conversations: named, tokens });
  return JSON.parse(execFileSync(python!, [script], { input, encoding: "utf8", maxBuffer: 1 << 28 }));
}

describe.skipIf(!python)("real chat templates (set STATESET_PYTHON to run)", () => {
  it("print harmless conversations as transformers does", () => {
    const compared = new Set<string>();
    for (const [name, { template, rendered }] of Object.entries(askTransformers())) {
      const options = { tokens, today: new Date(Date.UTC(2024, 6, 26)), where: name };
      const { print } = createTemplateRenderer(new Map([["default", template]]), options);
      for (const [i, { messages, tools, variables }] of conversations.entries()) {
        const [parsed, written] = rendered[i]!;
        // Objects as Python prints them are a template's way to say that it wants text.
        const expected = parsed === null || parsed.includes("{'city'") ? written : parsed;
        const asked = messages.findLast(({ role }) => role === "user")!.content.trim();
        // Templates for pictures want contents in parts, and lose those that are text.
        if (expected !== null && !expected.includes(asked)) continue;
        const ours = attempt(() => print(messages, { tools, templateVariables: variables, addGenerationPrompt: true }));
        expect(ours?.text ?? null, `${name}, conversation ${i}`).toBe(expected);
        if (expected !== null) compared.add(name);
      }
    }
    expect(compared.size).toBeGreaterThanOrEqual(60);
  }, 60_000);
});

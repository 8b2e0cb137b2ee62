import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import type { ToolDefinition } from "../conversation/tool-definition.ts";
import { ConversationEnvironment } from "../environment/conversation-environment.ts";
import { TaskEnvironment } from "../environment/task-environment.ts";
import type { Policy } from "../policy/policy.ts";
import { createStubPolicy } from "../policy/stub/stub-policy.ts";
import type { LoadedTokenizer } from "../policy/tokenizer/chat-tokenizer.ts";
import { folder } from "../policy/tokenizer/fixtures/conversations.ts";
import { byteLevelTokenizer } from "../policy/tokenizer/fixtures/model-folders.ts";
import { loadChatTokenizer } from "../policy/tokenizer/load-chat-tokenizer.ts";
import { encodeConversation } from "../supervised/example.ts";
import { readAgentFile, writeAgentFile } from "./agent-file.ts";
import { resolveAgentOptions } from "./agent-options.ts";
import { MultiTurnAgent } from "./multi-turn-agent.ts";

const template =
  "{% for tool in tools or [] %}[{{ tool.function.name }}]{% endfor %}({{ a }}{{ b }}{{ c }})" +
  "{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}";

const tool = (name: string): ToolDefinition => ({ type: "function", function: { name, parameters: {} } });
const user = { role: "user" as const, content: "Hi" };

let tokenizer: LoadedTokenizer;
beforeAll(async () => {
  const files = { "tokenizer.json": await byteLevelTokenizer(), "tokenizer_config.json": { eos_token: "<|im_end|>" } };
  tokenizer = await loadChatTokenizer(await folder({ ...files, "chat_template.jinja": template }));
});

function listener(contextLength = 1000): { policy: Policy; prompts: string[] } {
  const stub = createStubPolicy();
  const prompts: string[] = [];
  const policy: Policy = {
    ...stub,
    tokenizer,
    model: { ...stub.model, contextLength, endTokens: tokenizer.endTokens },
    sample: async (requests) =>
      requests.map(({ tokens }) => {
        prompts.push(tokenizer.decode(tokens));
        const sampled = tokenizer.encode("Yes.<|im_end|>", { control: true });
        const logprobs = new Float32Array(sampled.length);
        return { tokens: sampled, logprobs, text: "Yes.", finishReason: "stop", version: "v" };
      }),
  };
  return { policy, prompts };
}

describe("tools and template variables", () => {
  it("come from agent, scenario and conversation; the more specific win", async () => {
    const { policy, prompts } = listener();
    const agent = new MultiTurnAgent({ policy, tools: [tool("agent")], templateVariables: { a: "A", b: "A", c: "A" } });
    const scenario = { id: "s", tools: [tool("scenario")], templateVariables: { b: "S", c: "S" } };
    await agent.generateResponse([user]);
    await agent.startConversation({ scenario }).reply([user]);
    await agent.startConversation({ scenario, tools: [tool("own")], templateVariables: { c: "C" } }).reply([user]);
    await agent.startConversation({ scenario: { id: "none", tools: [] } }).reply([user]);
    expect(prompts).toEqual([
      "[agent](AAA)user: Hiassistant: ",
      "[scenario](ASS)user: Hiassistant: ",
      "[own](ASC)user: Hiassistant: ",
      "(AAA)user: Hiassistant: ",
    ]);
  });

  it("stay with the conversation in one chain, and count where the context is short", async () => {
    const { policy, prompts } = listener(60);
    const long = {
      templateVariables: { a: "x ".repeat(70) },
      contextWindow: "truncate" as const,
      sampling: { maxTokens: 16 },
    };
    const session = new MultiTurnAgent({ policy, ...long }).startConversation({ seed: 1 });
    expect(await session.reply([user])).toMatchObject({ kind: "context-full" });
    const brief = new MultiTurnAgent({ policy, ...long, templateVariables: { a: "x" } }).startConversation({ seed: 1 });
    const first = await brief.reply([user]);
    if (first.kind !== "reply") throw new Error("unexpected");
    await brief.reply([user, first.turn, user]);
    expect(brief.chains()).toHaveLength(1);
    expect(prompts.at(-1)).toBe("(x)user: Hiassistant: Yes.user: Hiassistant: ");
  });

  it("are kept beside the model", async () => {
    const dir = mkdtempSync(join(tmpdir(), "agent-"));
    const options = { tools: [tool("find")], templateVariables: { enable_thinking: false, list: [1, null, "a"] } };
    await writeAgentFile(dir, resolveAgentOptions(options));
    expect(await readAgentFile(dir)).toMatchObject(options);
    rmSync(dir, { recursive: true });
  });

  it("come with scenarios and tasks, under Python's name too", () => {
    const variables = { enable_thinking: false };
    const [scenario] = new ConversationEnvironment({
      scenarios: [{ userResponses: ["Hi"], template_variables: variables, tools: [tool("find")] }],
    }).scenarios;
    expect(scenario).toMatchObject({ templateVariables: variables, tools: [tool("find")] });
    const tasks = [{ id: "t", goal: "g", templateVariables: variables, tools: [tool("find")] }];
    expect(new TaskEnvironment({ tasks, check: () => true }).scenarios).toEqual(tasks);
  });

  it("come with examples to imitate", () => {
    const messages = [user, { role: "assistant" as const, content: "Yes." }];
    const { tokens } = encodeConversation(tokenizer, {
      messages,
      tools: [tool("find")],
      templateVariables: { b: "B" },
    });
    expect(tokenizer.decode(tokens)).toBe("[find](B)user: Hiassistant: Yes.");
  });

  it("are refused by name when they are not what a template can take", () => {
    const agent = (options: object) => () => new MultiTurnAgent(options);
    expect(agent({ templateVariables: { messages: [] } })).toThrow(/templateVariables: "messages" cannot be set/);
    expect(agent({ templateVariables: { now: () => 1 } })).toThrow(/agent\.templateVariables/);
    expect(agent({ tools: [{ name: "find" }] })).toThrow(/agent\.tools/);
    const scenarios = [{ userResponses: ["Hi"], templateVariables: { eos_token: "x" } }];
    expect(() => new ConversationEnvironment({ scenarios })).toThrow(/"eos_token" cannot be set/);
  });
});

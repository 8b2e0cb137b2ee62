/**
 * Calls that people's assistants made in conversations of the starter model's corpus (dev.jsonl, which it was not trained on): how often a model makes the same
 * one, greedily. The conversation up to the call is given, and the tools that it calls anywhere with three others of the same corpus.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { createRandom, type MessageInput, type MultiTurnAgent, seedOf } from "stateset-agents";
import type { ToolDefinition } from "stateset-agents/tools";
import { sameJson } from "../../packages/stateset-agents/src/conversation/same-json.ts";
import { validateMessages } from "../../packages/stateset-agents/src/conversation/validate-messages.ts";

export interface Accuracy {
  calls: number;
  /** The right tool, and the right tool with all arguments as they were. */
  tool: number;
  all: number;
}
export type BySource = Record<string, Accuracy>;

const besideCheckout = fileURLToPath(new URL("../../../shared/data/dialogues/dev.jsonl.xz", import.meta.url));
const others = 3;

/** dev.jsonl, plain or .xz, with tools.json beside it. Undefined where there is none. */
export function dialoguesFile(named = process.env.STATESET_TOOLS_DIALOGUES): string | undefined {
  if (named !== undefined && !existsSync(named)) throw new Error(`--dialogues: there is no file ${named}.`);
  return named ?? (existsSync(besideCheckout) ? besideCheckout : undefined);
}

interface Dialogue {
  id: string;
  source: string;
  messages: readonly MessageInput[];
}
type ListedTool = ToolDefinition & { source: string };
interface WrittenCall {
  name: string;
  arguments: Record<string, unknown>;
}

interface Asked {
  source: string;
  before: readonly MessageInput[];
  tools: ToolDefinition[];
  expected: WrittenCall;
}

export function askedCalls(file: string, limit = Number.POSITIVE_INFINITY): Asked[] {
  const listed = JSON.parse(readFileSync(join(dirname(file), "tools.json"), "utf8")) as ListedTool[];
  const dialogues = (file.endsWith(".xz") ? unpacked(file) : readFileSync(file, "utf8"))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Dialogue);
  const all = dialogues.flatMap((dialogue): Asked[] => {
    const tools = toolsOf(dialogue, listed);
    return dialogue.messages.flatMap(({ tool_calls }, i) => {
      const [expected] = (tool_calls ?? []) as readonly WrittenCall[];
      return expected ? [{ source: dialogue.source, before: dialogue.messages.slice(0, i), tools, expected }] : [];
    });
  });
  // Of fewer, an even sample: neighbours come from the same conversation.
  return all.length <= limit
    ? all
    : Array.from({ length: limit }, (_, i) => all[Math.floor((i * all.length) / limit)]!);
}

function toolsOf({ id, messages }: Dialogue, listed: readonly ListedTool[]): ToolDefinition[] {
  const called = new Set(
    messages.flatMap(({ tool_calls }) => (tool_calls ?? []) as WrittenCall[]).map(({ name }) => name),
  );
  const own = listed.filter(({ function: { name } }) => called.has(name));
  const corpora = new Set(own.map(({ source }) => source));
  const random = createRandom(seedOf("dialogue", id));
  const rest = listed.filter(({ source, function: { name } }) => corpora.has(source) && !called.has(name));
  return random
    .shuffled([...own, ...random.shuffled(rest).slice(0, others)])
    .map(({ type, function: definition }) => ({ type, function: definition }));
}

export async function measureDialogues(agent: MultiTurnAgent, file: string, limit?: number): Promise<BySource> {
  await agent.initialize();
  const bySource: BySource = {};
  const asked = askedCalls(file, limit);
  const answered = await Promise.all(asked.map((one) => answer(agent, one)));
  for (const [i, { source, expected }] of asked.entries()) {
    bySource[source] ??= { calls: 0, tool: 0, all: 0 };
    const own = bySource[source];
    const made = answered[i];
    const tool = made?.name === expected.name;
    own.calls++;
    own.tool += Number(tool);
    own.all += Number(tool && sameJson(made.arguments, expected.arguments));
  }
  return bySource;
}

/** The first call of a greedy reply; undefined where it makes none that can be read. */
async function answer(agent: MultiTurnAgent, { before, tools }: Asked): Promise<WrittenCall | undefined> {
  const [system, ...messages] = before;
  const scenario = { id: "dialogue", systemPrompt: String(system!.content) };
  const session = agent.startConversation({
    scenario,
    environmentTools: tools,
    learn: false,
    temperature: 0,
    maxTokens: 96,
  });
  const reply = await session.reply(validateMessages(messages), { seed: 0 });
  const call = reply.kind === "reply" ? reply.turn.tool_calls?.[0] : undefined;
  if (!call) return undefined;
  try {
    return { name: call.function.name, arguments: JSON.parse(call.function.arguments) as Record<string, unknown> };
  } catch {
    return { name: call.function.name, arguments: {} };
  }
}

function unpacked(file: string): string {
  const { status, stdout, stderr } = spawnSync("xz", ["-dc", file], { encoding: "utf8", maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`xz could not unpack ${file}: ${stderr || "is the xz command installed?"}`);
  return stdout;
}

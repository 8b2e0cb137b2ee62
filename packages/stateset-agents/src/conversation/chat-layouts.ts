/** The layouts that files of demonstrations come in. Each is made into messages of the OpenAI chat format. */
import { StatesetError } from "../error.ts";
import type { Message } from "./message.ts";
import { parseJson } from "./read-entries.ts";
import { readShareGpt } from "./share-gpt.ts";
import { validateMessages } from "./validate-messages.ts";

/** One demonstration, plus whatever else its line holds. */
export interface ChatRecord {
  messages: Message[];
  [key: string]: unknown;
}

type Line = Record<string, unknown>;

interface Layout {
  /** All of these make a line one of this layout. */
  keys: readonly string[];
  read(line: Line, where: string): ChatRecord;
}

const layouts: readonly Layout[] = [
  { keys: ["conversations"], read: shareGpt },
  { keys: ["prompt", "completion"], read: promptCompletion },
  { keys: ["instruction", "output"], read: alpaca },
];

const hint =
  'Each line is {"messages": [{"role": "user", "content": "…"}, …]}, {"prompt": …, "completion": …}, {"conversations": [{"from": "human", "value": "…"}, …]} or {"instruction": "…", "input": "…", "output": "…"}.';

/** A line of a chat file. `messages` count before all else; two other layouts in one line are refused. */
export function readChat(value: unknown, where: string): ChatRecord {
  const line = Array.isArray(value) ? { messages: value } : value;
  if (typeof line !== "object" || line === null) return refuse(where, "not an object", hint);
  const { system, tools, ...rest } = line as Line;
  const { messages, ...others } = conversationIn(rest, where);
  const given = readTools(tools, where);
  return { ...others, ...(given !== undefined && { tools: given }), messages: withSystem(system, messages, where) };
}

function conversationIn(line: Line, where: string): ChatRecord {
  if ("messages" in line)
    return { ...line, messages: validateMessages(line.messages, { where, code: "INVALID_DATA" }) };
  const found = layouts.filter(({ keys }) => keys.every((key) => key in line));
  if (found.length > 1) {
    const named = found.map(({ keys }) => keys.map((key) => `"${key}"`).join(" and ")).join(" as well as ");
    return refuse(where, `it has ${named}, and only one of them can be the conversation`, "Leave the others out.");
  }
  if (found[0]) return found[0].read(line, where);
  if ("chosen" in line && "rejected" in line) {
    const readers = "loadPreferencePairs() reads these, and on the command line `npx stateset-agents dpo`.";
    return refuse(where, "a preference pair, not a demonstration", readers);
  }
  return refuse(where, 'no "messages"', hint);
}

/** What a part of a line says: a string is one message of `role`; a message, or a list of them, is itself. */
export function readPart(
  value: unknown,
  role: Message["role"],
  { where, after = [] }: { where: string; after?: readonly Message[] },
): Message[] {
  if (typeof value === "string") return [{ role, content: value }];
  const list: unknown = Array.isArray(value) || typeof value !== "object" || value === null ? value : [value];
  if (Array.isArray(list) && list.length === 0) refuse(where, "there is no message", "Give at least one, or a string.");
  const shared =
    Array.isArray(list) && list.length > 0 && list.every((one) => (one as Line | null)?.from !== undefined);
  return validateMessages(shared ? readShareGpt(list, where) : list, { where, code: "INVALID_DATA", after });
}

/** TRL's: only the completion is learnt from. */
function promptCompletion({ prompt, completion, ...rest }: Line, where: string): ChatRecord {
  const asked = readPart(prompt, "user", { where: `${where}: prompt` });
  const said = readPart(completion, "assistant", { where: `${where}: completion`, after: asked });
  const context = asked.map((message): Message => (message.role === "assistant" ? { ...message, weight: 0 } : message));
  return { ...rest, messages: [...context, ...said] };
}

function shareGpt({ conversations, ...rest }: Line, where: string): ChatRecord {
  return { ...rest, messages: validateMessages(readShareGpt(conversations, where), { where, code: "INVALID_DATA" }) };
}

function alpaca({ instruction, input, output, history, ...rest }: Line, where: string): ChatRecord {
  const text = (value: unknown, name: string): string =>
    typeof value === "string" ? value : refuse(where, `its ${name} is not a string`, hint);
  const asked = [text(instruction, "instruction"), text(input ?? "", "input")].filter((part) => part.trim() !== "");
  if (asked.length === 0) refuse(where, "its instruction and its input are empty", hint);
  const past = history ?? [];
  if (!Array.isArray(past) || !past.every((pair) => Array.isArray(pair) && pair.length === 2)) {
    refuse(where, "its history is no list of pairs", 'Expected [["question", "answer"], …].');
  }
  const exchange = (question: string, answer: string): Message[] => [
    { role: "user", content: question },
    { role: "assistant", content: answer },
  ];
  const before = (past as [unknown, unknown][]).flatMap(([question, answer]) =>
    exchange(text(question, "history"), text(answer, "history")),
  );
  return { ...rest, messages: [...before, ...exchange(asked.join("\n"), text(output, "output"))] };
}

/** The system prompt that stands beside a conversation, put before it. */
export function withSystem(system: unknown, messages: Message[], where: string): Message[] {
  if (system === undefined || system === null || system === "") return messages;
  if (typeof system !== "string") return refuse(where, "its system is not a string", "Expected the system prompt.");
  const first = messages[0];
  if (first?.role !== "system") return [{ role: "system", content: system }, ...messages];
  if (first.content === system) return messages;
  return refuse(where, 'it has a "system" and its conversation begins with another', "Leave one of them out.");
}

/** The tools of a line: a list, or the JSON text of one; functions may stand there without a type around them. */
export function readTools(tools: unknown, where: string): unknown {
  if (tools === undefined || tools === null || tools === "") return undefined;
  const list = typeof tools === "string" ? parseJson(tools, `${where}: tools`) : tools;
  if (!Array.isArray(list)) return list;
  return list.map((tool) => {
    const bare = typeof tool === "object" && tool !== null && "name" in tool && !("function" in tool);
    return bare ? { type: "function", function: tool } : tool;
  });
}

function refuse(where: string, what: string, hint: string): never {
  throw new StatesetError("INVALID_DATA", `${where}: ${what}.`, { hint });
}

import { readFile } from "node:fs/promises";
import type { Message } from "../../conversation/message.ts";
import { unreadable } from "../../conversation/read-lines.ts";
import { validateMessages } from "../../conversation/validate-messages.ts";
import { messageOf, StatesetError } from "../../error.ts";

export interface Input {
  messages: Message[];
}

const hint = 'Write a text, {"message": "…"} or {"messages": [{"role": "user", "content": "…"}]}.';

/** Messages to answer: a JSON list or JSONL; each entry a text, `{ "message": … }`, `{ "prompt": … }` or `{ "messages": […] }`. */
export async function readInputs(path: string): Promise<Input[]> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    throw unreadable(path, error);
  }
  const entries = text.trimStart().startsWith("[") ? parseList(text, path) : parseLines(text, path);
  if (entries.length === 0) throw new StatesetError("INVALID_DATA", `${path} holds no messages.`, { hint });
  return entries.map(({ value, where }) => ({ messages: messagesOf(value, where) }));
}

interface Entry {
  value: unknown;
  where: string;
}

function parseList(text: string, path: string): Entry[] {
  try {
    return (JSON.parse(text) as unknown[]).map((value, i) => ({ value, where: `${path}, entry ${i + 1}` }));
  } catch (error) {
    throw new StatesetError("INVALID_DATA", `${path} is not JSON: ${messageOf(error)}.`, { cause: error });
  }
}

function parseLines(text: string, path: string): Entry[] {
  const entries: Entry[] = [];
  for (const [i, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    const where = `${path}, line ${i + 1}`;
    try {
      entries.push({ value: JSON.parse(line), where });
    } catch (error) {
      throw new StatesetError("INVALID_DATA", `${where} is not JSON: ${messageOf(error)}.`, { cause: error });
    }
  }
  return entries;
}

function messagesOf(value: unknown, where: string): Message[] {
  if (typeof value === "string") return [{ role: "user", content: value }];
  if (typeof value === "object" && value !== null) {
    const { message, prompt, messages } = value as { message?: unknown; prompt?: unknown; messages?: unknown };
    const text = message ?? prompt;
    if (typeof text === "string") return [{ role: "user", content: text }];
    if (Array.isArray(messages)) return validateMessages(messages, { where, code: "INVALID_DATA" });
  }
  throw new StatesetError("INVALID_DATA", `${where} is no message.`, { hint });
}

import { createReadStream, createWriteStream } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { createInterface } from "node:readline";
import { finished } from "node:stream/promises";
import { messageOf, StatesetError } from "../error.ts";
import type { Message } from "./message.ts";
import { parseRecord } from "./parse-record.ts";
import type { ConversationRecord } from "./record.ts";
import { validateMessages } from "./validate-messages.ts";

/** One line of a chat file: the OpenAI fine-tuning format, plus whatever else the line holds. */
export interface ChatRecord {
  messages: Message[];
  [key: string]: unknown;
}

type ChatLine = ChatRecord | ConversationRecord;

/** The objects of a JSONL file one by one, with their line numbers (from 1). Empty lines are skipped. Memory use does not grow. */
export async function* readJsonl(path: string): AsyncGenerator<{ line: number; value: unknown }> {
  const input = createReadStream(path, "utf8");
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY });
  let line = 0;
  try {
    for await (const text of lines) {
      line++;
      const json = line === 1 ? text.replace(/^\uFEFF/, "") : text;
      if (json.trim() === "") continue;
      yield { line, value: parseJsonLine(json, `${path}, line ${line}`) };
    }
  } catch (error) {
    if (StatesetError.isInstance(error)) throw error;
    throw new StatesetError("INVALID_DATA", `Could not read ${path}: ${messageOf(error)}.`, { cause: error });
  } finally {
    input.destroy();
  }
}

/** Chats of a JSONL file one by one: `{"messages": [{"role": …, "content": …}, …]}` a line; a bare list of messages works too. */
export async function* readChats(path: string): AsyncGenerator<ChatRecord> {
  for await (const { line, value } of readJsonl(path)) {
    const record = Array.isArray(value) ? { messages: value } : value;
    const where = `${path}, line ${line}`;
    if (typeof record !== "object" || record === null || !("messages" in record)) {
      throw new StatesetError("INVALID_DATA", `${where}: no "messages".`, {
        hint: 'Each line is {"messages": [{"role": "user", "content": "…"}, …]}.',
      });
    }
    yield { ...record, messages: validateMessages(record.messages, { where, code: "INVALID_DATA" }) };
  }
}

/** The conversations of a file that writeChats() or a run wrote, one by one; also those of before this format. */
export async function* readConversations(path: string): AsyncGenerator<ConversationRecord> {
  for await (const { line, value } of readJsonl(path)) yield parseRecord(value, `${path}, line ${line}`, String(line));
}

/** Writes chats or conversations (toConversationRecord() makes them of trajectories) as JSONL. The file appears under its name only when it is complete. */
export async function writeChats(
  path: string,
  chats: Iterable<ChatLine> | AsyncIterable<ChatLine>,
): Promise<{ count: number }> {
  const temporary = `${path}.${process.pid}.tmp`;
  let count = 0;
  try {
    await mkdir(dirname(path), { recursive: true });
    const output = createWriteStream(temporary);
    const done = finished(output);
    // The failure reaches us through `await done`; until then it must not count as unhandled.
    done.catch(() => {});
    for await (const chat of chats) {
      count++;
      const room = output.write(`${JSON.stringify(chat)}\n`);
      if (!room) await Promise.race([new Promise<void>((resolve) => output.once("drain", resolve)), done]);
    }
    output.end();
    await done;
    await rename(temporary, path);
    return { count };
  } catch (error) {
    await rm(temporary, { force: true });
    if (StatesetError.isInstance(error)) throw error;
    throw new StatesetError("WRITE_FAILED", `Could not write ${path}: ${messageOf(error)}.`, { cause: error });
  }
}

/** `where` names the line in errors. */
export function parseJsonLine(text: string, where: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new StatesetError("INVALID_DATA", `${where}: not valid JSON (${messageOf(error)}).`, {
      hint: "Each line holds one JSON object.",
      cause: error,
    });
  }
}

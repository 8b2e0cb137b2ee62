import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { messageOf, StatesetError } from "../error.ts";
import { type ChatRecord, readChat } from "./chat-layouts.ts";
import { parseRecord } from "./parse-record.ts";
import { type ReadOptions, readEntries } from "./read-entries.ts";
import type { ConversationRecord } from "./record.ts";

type ChatLine = ChatRecord | ConversationRecord;

/**
 * Chats of a JSONL file one by one: memory use does not grow. A line is `{"messages": [{"role": …, "content": …}, …]}` or a bare list of
 * messages, `{"prompt", "completion"}`, `{"conversations": [{"from", "value"}, …]}` or `{"instruction", "input", "output"}`.
 */
export function readChats(path: string, options: ReadOptions = {}): AsyncGenerator<ChatRecord> {
  return readEntries(path, readChat, options, "readChats()");
}

/** The conversations of a file that writeChats() or a run wrote, one by one; also those of before this format. */
export function readConversations(path: string, options: ReadOptions = {}): AsyncGenerator<ConversationRecord> {
  const read = (value: unknown, where: string, line: number) => parseRecord(value, where, String(line));
  return readEntries(path, read, options, "readConversations()");
}

/** Writes chats or conversations (toConversationRecord() makes them of trajectories) as JSONL. The file appears under its name only when it is complete. */
export async function writeChats(
  path: string,
  chats: Iterable<ChatLine> | AsyncIterable<ChatLine>,
): Promise<{ count: number }> {
  const temporary = `${path}.${process.pid}.tmp`;
  let count = 0;
  async function* lines(): AsyncGenerator<string> {
    for await (const chat of chats) {
      count++;
      yield `${JSON.stringify(chat)}\n`;
    }
  }
  try {
    await mkdir(dirname(path), { recursive: true });
    // It closes the file also when a line fails; a stream may still be about to create it when what was written is removed.
    await writeFile(temporary, lines());
    await rename(temporary, path);
    return { count };
  } catch (error) {
    await rm(temporary, { force: true });
    if (StatesetError.isInstance(error)) throw error;
    throw new StatesetError("WRITE_FAILED", `Could not write ${path}: ${messageOf(error)}.`, { cause: error });
  }
}

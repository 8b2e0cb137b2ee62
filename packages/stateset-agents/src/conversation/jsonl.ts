import { createWriteStream } from "node:fs";
import { mkdir, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { finished } from "node:stream/promises";
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

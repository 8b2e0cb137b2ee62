/** The conversations of a running step, as they end. */
import { type LiveRecord, readLive } from "../../run/read-live.ts";
import type { LiveConversation, LiveConversationsData } from "../api/index.ts";

export function liveOf(run: string, dir: string): LiveConversationsData {
  return { conversations: readLive(dir).map((record) => conversationOf(run, record)), problems: [] };
}

export function conversationOf(run: string, record: LiveRecord): LiveConversation {
  return { run, ...record, messages: record.messages.map((message) => ({ ...message })) };
}

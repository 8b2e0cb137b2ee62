import { StatesetError } from "../error.ts";
import { type ConversationRecord, chatMessage, type TurnRecord } from "./record.ts";
import type { RewardResult, Turn } from "./trajectory.ts";
import { validateMessages } from "./validate-messages.ts";

/**
 * A line of a file as a record. Lines of before this format are read as well: there the reward was a number with its `breakdown` beside
 * it, or what is known of a turn stood on its message. A line of any chat file is a record that says little.
 */
export function parseRecord(value: unknown, where: string, id: string): ConversationRecord {
  const line = Array.isArray(value) ? { messages: value } : value;
  if (typeof line !== "object" || line === null || !("messages" in line)) {
    throw new StatesetError("INVALID_DATA", `${where}: no "messages".`, {
      hint: 'Each line is {"messages": [{"role": "user", "content": "…"}, …]}.',
    });
  }
  const { breakdown, reward, turns, ...given } = line as Record<string, unknown>;
  const messages = validateMessages(line.messages, { where, code: "INVALID_DATA" });
  if (given.chains !== undefined && !(Array.isArray(given.chains) && given.chains.every(isChain))) {
    throw new StatesetError("INVALID_DATA", `${where}: "chains" is no list of chains.`, {
      hint: 'Each is {"length": …, "learnLength": …}; leave "chains" out where no tokens are known.',
    });
  }
  const notes = (turns as ConversationRecord["turns"]) ?? oldNotes(line.messages as Turn[]);
  const scored = typeof reward === "number" ? { score: reward, breakdown: breakdown ?? {} } : reward;
  return {
    id,
    chains: [],
    ...given,
    messages: messages.map(chatMessage),
    ...(Object.keys(notes).length > 0 && { turns: notes }),
    ...(scored !== undefined && { reward: scored as RewardResult }),
  };
}

function isChain(value: unknown): boolean {
  const { length, learnLength } = (value ?? {}) as Partial<Record<string, unknown>>;
  return [length, learnLength].every((count) => Number.isInteger(count) && (count as number) >= 0);
}

function oldNotes(messages: readonly Turn[]): Record<number, TurnRecord> {
  const notes = messages.flatMap(({ reward, metadata, sampled }, i): [number, TurnRecord][] => {
    if (reward === undefined && metadata === undefined && sampled === undefined) return [];
    return [
      [i, { ...(reward !== undefined && { reward }), ...(metadata && { metadata }), ...(sampled && { sampled }) }],
    ];
  });
  return Object.fromEntries(notes);
}

/** Taskmaster replies that people called good or bad (CC BY 4.0, Google): read from a folder next to the checkout, when it is there. */
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Message, PreferencePair } from "stateset-agents";

const file = fileURLToPath(new URL("../../../shared/data/offline/taskmaster-reward.jsonl.xz", import.meta.url));

export interface Row {
  source: string;
  context: Message[];
  reply: Message;
  good: boolean;
  /** Rows that grew out of the same opening belong to one dialogue and stay on one side of the split. */
  dialogue: string;
}

/** Undefined when the data or the `xz` command is not there. */
export function readTaskmaster(): Row[] | undefined {
  if (!existsSync(file)) return undefined;
  const { status, stdout } = spawnSync("xz", ["-dc", file], { encoding: "utf8", maxBuffer: 1 << 28 });
  if (status !== 0) return undefined;
  return stdout
    .trim()
    .split("\n")
    .map((line) => readRow(JSON.parse(line) as RawRow));
}

interface RawRow {
  source: string;
  context: RawMessage[];
  generation: RawMessage;
  reward: number;
}

interface RawMessage {
  role: Message["role"];
  name?: string;
  content: string;
  tool_calls?: { name: string; arguments: unknown }[];
}

function readRow({ source, context, generation, reward }: RawRow): Row {
  const opening = JSON.stringify(context.slice(0, 4));
  return {
    source,
    context: context.map(readMessage),
    reply: readMessage(generation, context.length),
    good: reward > 0.5,
    dialogue: createHash("sha1").update(opening).digest("hex"),
  };
}

/** The file's tool calls in the chat format; a result answers the call before it. */
function readMessage({ tool_calls, ...message }: RawMessage, index: number): Message {
  if (message.role === "tool") return { ...message, tool_call_id: `call-${index - 1}` };
  if (!tool_calls) return message;
  return {
    ...message,
    tool_calls: tool_calls.map((call) => ({
      id: `call-${index}`,
      type: "function",
      function: { name: call.name, arguments: JSON.stringify(call.arguments) },
    })),
  };
}

/** About one dialogue in `parts` is held out. */
export function splitByDialogue<T>(
  items: readonly T[],
  dialogueOf: (item: T) => string,
  parts: number,
): { train: T[]; heldOut: T[] } {
  const held = (item: T) => Number.parseInt(dialogueOf(item).slice(0, 8), 16) % parts === 0;
  return { train: items.filter((item) => !held(item)), heldOut: items.filter(held) };
}

/** Contexts that hold both a good and a bad reply give a pair for each good one (with one of the bad ones). */
export function pairsOf(rows: readonly Row[]): (PreferencePair & { dialogue: string })[] {
  const byContext = new Map<string, Row[]>();
  for (const row of rows) {
    const key = JSON.stringify(row.context);
    byContext.set(key, [...(byContext.get(key) ?? []), row]);
  }
  return [...byContext.values()].flatMap((same) => {
    const [good, bad] = [same.filter((row) => row.good), same.filter((row) => !row.good)];
    if (bad.length === 0) return [];
    return good.map((row, i) => ({
      prompt: row.context,
      chosen: [row.reply],
      rejected: [bad[i % bad.length]!.reply],
      dialogue: row.dialogue,
    }));
  });
}

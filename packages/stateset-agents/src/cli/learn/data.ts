/** What is learnt from: files of chats, pairs or labelled conversations, and the conversations that a run kept. */
import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { readChats } from "../../conversation/jsonl.ts";
import type { Message } from "../../conversation/message.ts";
import { type ReadOptions, readEntries } from "../../conversation/read-entries.ts";
import type { ConversationRecord } from "../../conversation/record.ts";
import { StatesetError } from "../../error.ts";
import { readPair } from "../../preference/pair.ts";
import type { LabelledConversation, RewardExample } from "../../preference/reward-data.ts";
import { readTrajectories, trajectorySteps } from "../../run/trajectories.ts";
import { readConversation, type SupervisedConversation } from "../../supervised/example.ts";
import type { CliIo } from "../io.ts";
import { pathOrRun } from "../run/path-or-run.ts";
import type { LearnFlags } from "./flags.ts";
import { harvestFolder } from "./harvest.ts";

export interface Sources {
  data: string;
  heldOut: string | undefined;
}

/** Flags are relative to the working folder, a configuration's paths to the configuration. */
export function sourcesOf(
  command: string,
  flags: LearnFlags,
  section: { data?: string | undefined; heldOut?: string | undefined } | undefined,
  dir: string,
  io: CliIo,
): Sources {
  const at = (flag: string | undefined, own: string | undefined) =>
    flag === undefined ? own && resolve(dir, own) : pathOrRun(flag, io);
  const data = at(flags.data, section?.data);
  const heldOut = at(flags.heldOut, section?.heldOut);
  if (data !== undefined) return { data, heldOut };
  throw new StatesetError("INVALID_OPTION", `${command} was given nothing to learn from.`, {
    hint: "Give --data <file>, or `data` in its section of the configuration.",
  });
}

/** Chats of a file, or what a run kept of its conversations. */
export async function readExamples(
  path: string,
  minReward: number | undefined,
  options: ReadOptions,
): Promise<SupervisedConversation[]> {
  if (existsSync(path) && statSync(path).isDirectory()) return conversationsOf(path, minReward);
  if (minReward !== undefined) {
    throw new StatesetError("INVALID_OPTION", `The lines of ${path} have no rewards to choose by.`, {
      hint: "Leave --min-reward out, or give the folder of a run as --data.",
    });
  }
  const chats: SupervisedConversation[] = [];
  for await (const { messages, tools, templateVariables } of readChats(path, options)) {
    chats.push({ messages, tools, templateVariables } as SupervisedConversation);
  }
  if (chats.length === 0) throw new StatesetError("INVALID_DATA", `${path} holds no chats.`);
  return chats;
}

/** A harvest of best-of-n goes before the steps of its run, which learn from nothing else. */
function conversationsOf(dir: string, minReward: number | undefined): SupervisedConversation[] {
  const folder = existsSync(harvestFolder(dir)) ? harvestFolder(dir) : dir;
  const records = trajectorySteps(folder).flatMap((step) => readTrajectories(folder, step));
  const sound = records.filter(
    ({ leftOut, stub, side, failure }) => !leftOut && !stub && side !== "rejected" && !failure,
  );
  const kept = sound.filter(
    ({ reward }) => minReward === undefined || (reward !== undefined && reward.score >= minReward),
  );
  if (kept.length > 0) return kept.map(conversationOf);
  const most = Math.max(...sound.map(({ reward }) => reward?.score ?? Number.NEGATIVE_INFINITY));
  throw new StatesetError(
    "INVALID_DATA",
    `${dir} has no conversation to learn from${sound.length > 0 ? ` with a reward of ${minReward} or more` : ""}.`,
    {
      hint: Number.isFinite(most)
        ? `The highest reward of the ${sound.length} that it kept is ${most}.`
        : "Give a file of chats, or a run that kept its conversations (trajectories.every).",
    },
  );
}

/** As the model saw it: with what the agent's prompt held beside the messages. */
export function conversationOf({
  messages,
  system,
  tools,
  templateVariables,
}: ConversationRecord): SupervisedConversation {
  const all: Message[] = system === undefined ? messages : [{ role: "system", content: system }, ...messages];
  return { messages: all, tools, templateVariables };
}

/** Lines with `chosen` and `rejected` are pairs, lines with `messages` and `good` are labelled conversations. */
export async function readRewardExamples(path: string, options: ReadOptions): Promise<RewardExample[]> {
  const examples: RewardExample[] = [];
  const read = (value: unknown, where: string) =>
    typeof value === "object" && value !== null && "messages" in value
      ? labelledFrom(value, where)
      : readPair(value, where);
  for await (const example of readEntries(path, read, options, "reward-model")) examples.push(example);
  if (examples.length === 0) throw new StatesetError("INVALID_DATA", `${path} holds no examples.`);
  return examples;
}

function labelledFrom(value: object, where: string): LabelledConversation {
  const { good, ...conversation } = readConversation<LabelledConversation>(value, where);
  if (typeof good === "boolean") return { good, ...conversation };
  throw new StatesetError("INVALID_DATA", `${where} has no label.`, { hint: 'Set "good" to true or false.' });
}

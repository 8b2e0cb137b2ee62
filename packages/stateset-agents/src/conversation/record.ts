/**
 * A conversation as one JSON object: a line of a run's trajectories/step-000123.jsonl, and of any file a user writes conversations to.
 * `messages` are in the OpenAI chat format and nothing else, so that other tools read them; what else is known stands beside them.
 */
import type { Failure } from "./failure.ts";
import { learnCount } from "./learn-tokens.ts";
import type { Message } from "./message.ts";
import { plainData } from "./plain-data.ts";
import { sameJson } from "./same-json.ts";
import type { TemplateVariables } from "./template-variables.ts";
import type { ToolDefinition } from "./tool-definition.ts";
import type { ChainStart, Ended, RewardResult, TokenChain, Trajectory, Turn } from "./trajectory.ts";

export interface ConversationRecord {
  id: string;
  scenarioId?: string;
  /** Its group, or its pair. */
  group?: string;
  step?: number;
  /** Of an evaluation after `step`: the held-out scenarios that choose the best checkpoint, or those that are only reported. */
  set?: "selection" | "report";
  /** As the environment holds them, without the agent's own system prompt. */
  messages: Message[];
  /** What is known of single messages, by index. */
  turns?: Record<number, TurnRecord>;
  /** What the first prompt held beside the messages. */
  system?: string;
  tools?: readonly ToolDefinition[];
  templateVariables?: TemplateVariables;
  /** None where it was lost. */
  reward?: RewardResult;
  ended?: Ended;
  failure?: Failure;
  /**
   * Why nothing was learnt from it: it was "lost" (`failure` says how), too few of its group came through ("dropped"), or the algorithm
   * did not want its group ("refused").
   */
  leftOut?: "lost" | "dropped" | "refused";
  /** Of a preference pair, which `group` names: the one to learn, or the one to unlearn. */
  side?: "chosen" | "rejected";
  /** The weights that spoke, in order. */
  versions?: readonly string[];
  temperature?: number;
  /** A stub made it up: it can never be trained on. */
  stub?: true;
  metadata?: Record<string, unknown>;
  chains: ChainRecord[];
  /**
   * On the last line of a step, or of a set of an evaluation: conversations that are not in the file, since they were too many. Of a step,
   * those nothing was learnt from; of an evaluation, `evaluated`.
   */
  notWritten?: { lost: number; dropped: number; refused: number; evaluated?: number };
}

export interface TurnRecord {
  reward?: number;
  metadata?: Record<string, unknown>;
  /** `text` is left out where it is the message's content, with or without one mark that ends it. */
  sampled?: {
    finishReason: "stop" | "length";
    text?: string;
    constrained?: { tokens: number; forced: number; removed: number };
  };
  /** The conversation began with it: nothing the agent said. */
  given?: true;
}

export interface ChainRecord {
  /** Tokens; `offset` is that of the first in the file of tokens beside this one, where there is one. */
  length: number;
  offset?: number;
  /** The same of the tokens that can be learnt from. */
  learnLength: number;
  learnOffset?: number;
  started?: ChainStart;
  versions?: Readonly<Record<number, string>>;
  /** What its last reply answers, where that is not simply the messages before it. */
  prompt?: Message[];
  /** Where they are not those of the conversation. */
  tools?: readonly ToolDefinition[];
  templateVariables?: TemplateVariables;
}

type Recordable = Omit<Trajectory, "reward"> & { reward?: RewardResult };

/** A trajectory as a record. Of metadata, what JSON can hold. */
export function toConversationRecord(
  trajectory: Recordable,
  place: Pick<ConversationRecord, "group" | "step" | "leftOut"> = {},
): ConversationRecord {
  const { id, scenarioId, turns, reward, ended, failure, versions, temperature, stub } = trajectory;
  const messages = turns.map(chatMessage);
  const notes = Object.fromEntries(turns.flatMap((turn, i) => noteOf(turn, i)));
  const first = trajectory.chains[0]?.prompt;
  const system = systemOf(first?.messages, messages);
  const metadata = plainData(trajectory.metadata);
  const seen: Seen = { system, tools: first?.tools, templateVariables: first?.templateVariables, messages };
  return {
    id,
    ...(place.group !== undefined && { group: place.group }),
    scenarioId,
    ...(place.step !== undefined && { step: place.step }),
    messages,
    ...(Object.keys(notes).length > 0 && { turns: notes }),
    ...(system !== undefined && { system }),
    ...(first?.tools && { tools: first.tools }),
    ...(first?.templateVariables && { templateVariables: first.templateVariables }),
    ...(reward && { reward: rewardOf(reward) }),
    ended,
    ...(failure && { failure: withoutMistake(failure) }),
    ...(place.leftOut && { leftOut: place.leftOut }),
    ...(versions && versions.length > 0 && { versions }),
    temperature,
    ...(stub && { stub }),
    ...(metadata && { metadata }),
    chains: trajectory.chains.map((chain) => chainOf(chain, seen)),
  };
}

type Seen = Pick<ConversationRecord, "messages"> & {
  system: string | undefined;
  tools: readonly ToolDefinition[] | undefined;
  templateVariables: TemplateVariables | undefined;
};

function chainOf({ tokens, learn, started, versions, prompt }: TokenChain, seen: Seen): ChainRecord {
  const { tools, templateVariables } = prompt ?? seen;
  const head = seen.system === undefined ? [] : [{ role: "system" as const, content: seen.system }];
  const shown = prompt?.messages.map(chatMessage);
  const plain = [...head, ...seen.messages];
  return {
    length: tokens.length,
    learnLength: learnCount({ learn }),
    ...(started && { started }),
    ...(versions && Object.keys(versions).length > 0 && { versions }),
    ...(shown && !sameJson(shown, plain.slice(0, shown.length)) && { prompt: shown }),
    ...(!sameJson(tools, seen.tools) && { tools: tools ?? [] }),
    ...(!sameJson(templateVariables, seen.templateVariables) && { templateVariables: templateVariables ?? {} }),
  };
}

/** The agent's own, where the conversation has none. */
function systemOf(prompt: readonly Message[] | undefined, messages: readonly Message[]): string | undefined {
  const head = prompt?.[0];
  if (head?.role !== "system" || sameJson(chatMessage(head), messages[0])) return undefined;
  return head.content;
}

/** Nothing but what the chat format knows. */
export function chatMessage({ role, content, name, tool_calls, tool_call_id, reasoning }: Message): Message {
  return {
    role,
    content,
    ...(name !== undefined && { name }),
    ...(reasoning !== undefined && { reasoning }),
    ...(tool_calls !== undefined && { tool_calls }),
    ...(tool_call_id !== undefined && { tool_call_id }),
  };
}

function noteOf(turn: Turn, index: number): [number, TurnRecord][] {
  const { reward, sampled, given } = turn;
  const metadata = turn.metadata && plainData(turn.metadata);
  const note: TurnRecord = {
    ...(reward !== undefined && { reward }),
    ...(metadata && { metadata }),
    ...(sampled && {
      sampled: {
        finishReason: sampled.finishReason,
        ...(!saysAll(turn, sampled.text) && { text: sampled.text }),
        ...(sampled.constrained && { constrained: sampled.constrained }),
      },
    }),
    ...(given && { given }),
  };
  return Object.keys(note).length === 0 ? [] : [[index, note]];
}

/** Whether a message is what was sampled, but for one mark at its end. */
function saysAll({ content, reasoning, tool_calls }: Message, text: string): boolean {
  if (reasoning !== undefined || tool_calls !== undefined || !text.startsWith(content)) return false;
  return /^(?:<[^<>\s]{1,40}>)?$/.test(text.slice(content.length));
}

function rewardOf({ score, breakdown, turns, turnsInScore, ...rest }: RewardResult): RewardResult {
  const metadata = rest.metadata && plainData(rest.metadata);
  return {
    score,
    breakdown,
    ...(turns && { turns }),
    ...(turnsInScore && { turnsInScore }),
    ...(metadata && { metadata }),
  };
}

function withoutMistake({ mistake: _, ...failure }: Failure): Failure {
  return failure;
}

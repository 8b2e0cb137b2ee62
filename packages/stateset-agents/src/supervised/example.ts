import { readTools } from "../conversation/chat-layouts.ts";
import { learnCount } from "../conversation/learn-tokens.ts";
import type { Message, MessageInput } from "../conversation/message.ts";
import { type TemplateVariables, templateVariablesSchema } from "../conversation/template-variables.ts";
import type { TreeChain } from "../conversation/token-tree.ts";
import type { ToolDefinition } from "../conversation/tool-definition.ts";
import type { TokenChain, Trajectory } from "../conversation/trajectory.ts";
import { validateMessages } from "../conversation/validate-messages.ts";
import { StatesetError } from "../error.ts";
import { parseOptions } from "../options.ts";
import type { ChatTokenizer } from "../policy/policy.ts";

/** A conversation to imitate. Lines of a chat file (`readChats`) fit. */
export interface SupervisedConversation {
  messages: readonly MessageInput[];
  tools?: readonly ToolDefinition[] | undefined;
  /** What the chat template is told beside: `{ enable_thinking: false }`. */
  templateVariables?: TemplateVariables | undefined;
}

/** The same with its messages checked. */
export type CheckedConversation = Omit<SupervisedConversation, "messages"> & { messages: readonly Message[] };

/** What can be imitated: a conversation, or the recorded tokens of one that was sampled (never tokenised again). */
export type SupervisedExample = SupervisedConversation | TokenChain;

export interface EncodedConversation extends TreeChain {
  /** The message each token belongs to; -1 outside messages. */
  message: Int32Array;
  /** Control tokens that the assistant's messages only spell, by message. */
  spelt: readonly { message: number; tokens: readonly string[] }[];
}

/** The tokens of a conversation as sampling would have seen them, with `learn` on what the assistant itself wrote, unless it weighs 0. */
export function encodeConversation(
  tokenizer: ChatTokenizer,
  { messages, tools, templateVariables }: CheckedConversation,
): EncodedConversation {
  const segments = tokenizer.segments(messages, { tools, templateVariables });
  const length = segments.reduce((sum, segment) => sum + segment.tokens.length, 0);
  const spelt = segments.flatMap(({ message, spelt: tokens }) => (tokens ? [{ message, tokens }] : []));
  const encoded = {
    tokens: new Int32Array(length),
    learn: new Uint8Array(length),
    message: new Int32Array(length),
    spelt,
  };
  let at = 0;
  for (const { tokens, generated, message } of segments) {
    encoded.tokens.set(tokens, at);
    const learnt = generated && messages[message]?.weight !== 0;
    encoded.learn.fill(learnt ? 1 : 0, at, at + tokens.length);
    encoded.message.fill(message, at, at + tokens.length);
    at += tokens.length;
  }
  return encoded;
}

export interface EncodedExamples {
  chains: TreeChain[];
  /** Which example each chain is, and its messages where it has some. */
  sources: { index: number; conversation: CheckedConversation | undefined }[];
  /** Examples cut at the model's context, and examples left out because nothing in them can be learnt. */
  truncated: number;
  dropped: number;
  /** Examples whose assistant spells control tokens in plain text. */
  spelt: number;
}

/** Encodes examples, cutting those that do not fit the context. The end is cut: what is left is still a real beginning. */
export function encodeExamples(
  tokenizer: ChatTokenizer,
  examples: readonly SupervisedExample[],
  contextLength: number,
): EncodedExamples {
  const result: EncodedExamples = { chains: [], sources: [], truncated: 0, dropped: 0, spelt: 0 };
  const spelt = new Set<string>();
  for (const [i, example] of examples.entries()) {
    let chain: TreeChain;
    let conversation: CheckedConversation | undefined;
    if (isChain(example)) chain = example;
    else {
      conversation = readConversation<SupervisedConversation>(example, `examples[${i}]`);
      if (conversation.messages.length === 0) {
        result.dropped++;
        continue;
      }
      const encoded = encodeConversation(tokenizer, conversation);
      if (encoded.spelt.length > 0) result.spelt++;
      for (const { tokens } of encoded.spelt) for (const token of tokens) spelt.add(token);
      // Which message a token belongs to is not needed any more, and of many thousands it would be felt.
      chain = { tokens: encoded.tokens, learn: encoded.learn };
    }
    if (chain.tokens.length > contextLength) {
      chain = { tokens: chain.tokens.subarray(0, contextLength), learn: chain.learn.subarray(0, contextLength) };
      result.truncated++;
    }
    // The first token has no context to be predicted from.
    if (chain.learn.indexOf(1, 1) < 0) result.dropped++;
    else {
      result.chains.push(chain);
      result.sources.push({ index: i, conversation });
    }
  }
  if (result.chains.length === 0) {
    throw new StatesetError(
      "INVALID_DATA",
      `None of the ${examples.length} examples has an assistant token to learn from.`,
      { hint: "Give conversations with assistant messages that fit the model's context." },
    );
  }
  warnOfSpelt(result.spelt, examples.length, "examples", spelt);
  return result;
}

/** Says that data spells what only a chat template makes: whoever wrote `<tool_call>` into a content may have meant the token. */
export function warnOfSpelt(count: number, of: number, what: string, tokens: ReadonlySet<string>): void {
  if (count === 0) return;
  const named = [...tokens].slice(0, 5).join(", ");
  process.emitWarning(
    `In ${count} of ${of} ${what} an assistant's text spells control tokens (${named}). They are learnt as plain text: only the chat ` +
      "template makes control tokens. Give tool calls as tool_calls and thoughts as reasoning, and the template will write them.",
    { type: "StatesetWarning", code: "SPELT_TOKENS" },
  );
}

export function isChain(value: unknown): value is TreeChain {
  const chain = value as Partial<TreeChain> | null | undefined;
  return chain?.tokens instanceof Int32Array && chain.learn instanceof Uint8Array;
}

/** Checks that something holds messages in the chat format, and returns it with these. */
export function readConversation<C extends { messages: readonly MessageInput[] }>(
  value: unknown,
  where: string,
): Omit<C, "messages"> & { messages: Message[] } {
  const record = (typeof value === "object" && value !== null ? value : {}) as C & Record<string, unknown>;
  if (record.messages === undefined) {
    throw new StatesetError("INVALID_DATA", `${where} has no "messages".`, {
      hint: 'A conversation is {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}.',
    });
  }
  const messages = validateMessages(record.messages, { where, code: "INVALID_DATA" });
  return { ...record, ...readTemplateOptions(record, where), messages };
}

/** What a line of data says to the chat template beside its messages. Tools are taken as the template will take them. */
export function readTemplateOptions(
  record: Readonly<Record<string, unknown>>,
  where: string,
): Pick<CheckedConversation, "tools" | "templateVariables"> {
  const tools = readTools(record.tools, where);
  if (tools !== undefined && !Array.isArray(tools)) {
    throw new StatesetError("INVALID_DATA", `${where}: the tools are not a list.`);
  }
  const variables = templateVariablesSchema.optional();
  return {
    tools,
    templateVariables: parseOptions(variables, record.templateVariables ?? undefined, where, "INVALID_DATA"),
  };
}

/** Refuses conversations none of which holds a token to learn from, as those of an evaluation: whatever follows would do nothing. */
export function requireLearnTokens(trajectories: readonly Trajectory[], where: string): void {
  if (trajectories.some(({ chains }) => chains.some((chain) => learnCount(chain) > 0))) return;
  throw new StatesetError("INVALID_DATA", `${where} was given no conversation with tokens to learn from.`, {
    hint: "Sample them with harvestBestOfN() or take those of onRollouts; evaluations do not mark theirs for learning.",
  });
}

/** One message, in the OpenAI chat format, so that nothing has to be converted on the way in or out. */
export interface Message {
  role: Role;
  content: string;
  name?: string;
  /** What an assistant message asks to have called. */
  tool_calls?: ToolCall[];
  /** On a tool message: the call it answers. */
  tool_call_id?: string;
  /** What a reasoning model thought before answering; kept apart from `content`. */
  reasoning?: string;
  /** 0 on an assistant message of a demonstration: it is context, not learnt from. As in OpenAI's files for fine-tuning. */
  weight?: 0 | 1;
}

/**
 * A message as OpenAI writes it: content may be in text parts, or missing beside tool calls or a refusal, and fields that do not
 * apply may be null. Functions that take conversations take these. Tool calls may be short, and a tool message may leave out which
 * call it answers where only one can be meant.
 */
export interface MessageInput {
  role: Role;
  content?: string | null | readonly { type: "text"; text: string }[];
  /** Becomes the content where there is none. */
  refusal?: string | null;
  name?: string | null;
  tool_calls?: readonly ToolCallInput[] | null;
  tool_call_id?: string | null;
  reasoning?: string | null;
  /** What many clients call it. */
  reasoning_content?: string | null;
  weight?: 0 | 1 | null;
}

/** "developer" is what newer OpenAI models call the system; chat templates that do not know it are told "system". */
export type Role = "system" | "developer" | "user" | "assistant" | "tool";

export interface ToolCall {
  id: string;
  type: "function";
  function: { name: string /** JSON text, as the model wrote it. */; arguments: string };
}

/** A call with its arguments as JSON text or as the object itself, and with or without an id: one is made up where it has none. */
export type ToolCallInput = { id?: string | null; type?: "function" } & (
  | { name: string; arguments: string | Readonly<Record<string, unknown>> }
  | { function: { name: string; arguments: string | Readonly<Record<string, unknown>> } }
);

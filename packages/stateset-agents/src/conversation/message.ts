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
}

/**
 * A message as OpenAI writes it: content may be in text parts, or missing beside tool calls or a refusal, and fields that do not
 * apply may be null. Functions that take conversations take these.
 */
export interface MessageInput {
  role: Role;
  content?: string | null | readonly { type: "text"; text: string }[];
  /** Becomes the content where there is none. */
  refusal?: string | null;
  name?: string | null;
  tool_calls?: readonly ToolCall[] | null;
  tool_call_id?: string | null;
  reasoning?: string | null;
}

/** "developer" is what newer OpenAI models call the system; chat templates that do not know it are told "system". */
export type Role = "system" | "developer" | "user" | "assistant" | "tool";

export interface ToolCall {
  id: string;
  type: "function";
  function: { name: string /** JSON text, as the model wrote it. */; arguments: string };
}

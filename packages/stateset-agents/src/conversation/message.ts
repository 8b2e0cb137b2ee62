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

/** "developer" is what newer OpenAI models call the system; chat templates that do not know it are told "system". */
export type Role = "system" | "developer" | "user" | "assistant" | "tool";

export interface ToolCall {
  id: string;
  type: "function";
  function: { name: string /** JSON text, as the model wrote it. */; arguments: string };
}

/** A function a model may call, in the OpenAI format. `parameters` is a JSON schema. */
export interface ToolDefinition {
  type: "function";
  function: { name: string; description?: string; parameters: Record<string, unknown> };
}

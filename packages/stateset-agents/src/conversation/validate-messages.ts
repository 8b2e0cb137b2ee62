import { type ErrorCode, StatesetError } from "../error.ts";
import type { Message, Role } from "./message.ts";

const roles: readonly Role[] = ["system", "developer", "user", "assistant", "tool"];
const roleHint = `Use one of ${roles.join(", ")}.`;

export interface ValidateOptions {
  /** Put before the message in errors: `file.jsonl, line 3`. */
  where?: string;
  code?: ErrorCode;
}

/**
 * Checks that a value is a conversation in the OpenAI chat format and returns it with plain contents: text parts are joined, a
 * refusal is a content, and no content beside tool calls is an empty one.
 */
export function validateMessages(value: unknown, options: ValidateOptions = {}): Message[] {
  const { where = "messages", code = "INVALID_MESSAGE" } = options;
  if (!Array.isArray(value))
    throw new StatesetError(code, `${where}: expected a list of messages, got ${kind(value)}.`);
  return value.map((message, i) => validateMessage(message, `${where}: message ${i + 1}`, code));
}

/** A chat template leaves out what it has no branch for, so that a role nobody knows would be a message nobody reads. */
export function requireKnownRoles(messages: readonly { role: string }[]): void {
  const at = messages.findIndex(({ role }) => !roles.includes(role as Role));
  if (at < 0) return;
  const what = `messages: message ${at + 1} has role ${JSON.stringify(messages[at]!.role)}.`;
  throw new StatesetError("INVALID_MESSAGE", what, { hint: roleHint });
}

function validateMessage(value: unknown, where: string, code: ErrorCode): Message {
  const fail = (what: string, hint?: string): never => {
    throw new StatesetError(code, `${where} ${what}.`, hint === undefined ? {} : { hint });
  };
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return fail(`is ${kind(value)}, not an object`);
  // What was sampled is known to whoever sampled it; no file or caller may say so.
  const { sampled: _, refusal, ...message } = withoutNulls(value);
  if (typeof message.role !== "string" || !roles.includes(message.role as Role)) {
    return fail(`has role ${JSON.stringify(message.role)}`, roleHint);
  }
  const role = message.role as Role;
  const calls = message.tool_calls;
  if (calls !== undefined) {
    if (role !== "assistant")
      fail(`has tool_calls, but its role is "${role}"`, "Only assistant messages can call tools.");
    if (!Array.isArray(calls) || !calls.every(isToolCall)) {
      fail("has malformed tool_calls", 'Each is {id, type: "function", function: {name, arguments: "<JSON text>"}}.');
    }
  }
  const content = textOf(message.content) ?? refusal ?? (Array.isArray(calls) && calls.length > 0 ? "" : undefined);
  if (typeof content !== "string") {
    return fail(`has content that is ${kind((value as { content?: unknown }).content)}, not a string`);
  }
  for (const key of ["name", "tool_call_id", "reasoning"]) {
    if (message[key] !== undefined && typeof message[key] !== "string") fail(`has a ${key} that is not a string`);
  }
  if (role === "tool" && message.tool_call_id === undefined) {
    fail("is a tool result without tool_call_id", "Name the call it answers.");
  }
  return { ...message, role, content };
}

const nullable = new Set(["content", "refusal", "name", "tool_calls", "tool_call_id", "reasoning"]);

/** OpenAI's libraries write null for fields that do not apply. */
function withoutNulls(value: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([key, part]) => part !== null || !nullable.has(key)));
}

/** OpenAI also writes content as a list of parts; those that are text are joined. Anything else is left for the check. */
function textOf(content: unknown): unknown {
  const isText = (part: unknown) =>
    (part as { type?: unknown } | null)?.type === "text" && typeof (part as { text?: unknown }).text === "string";
  if (!Array.isArray(content) || content.length === 0 || !content.every(isText)) return content;
  return content.map((part: { text: string }) => part.text).join("");
}

function isToolCall(value: unknown): boolean {
  const call = value as { id?: unknown; type?: unknown; function?: { name?: unknown; arguments?: unknown } } | null;
  return (
    typeof call?.id === "string" &&
    call.type === "function" &&
    typeof call.function?.name === "string" &&
    typeof call.function.arguments === "string"
  );
}

function kind(value: unknown): string {
  return value === null
    ? "null"
    : Array.isArray(value)
      ? "a list"
      : value === undefined
        ? "missing"
        : `a ${typeof value}`;
}

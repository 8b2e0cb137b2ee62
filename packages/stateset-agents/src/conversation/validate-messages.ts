import { type ErrorCode, StatesetError } from "../error.ts";
import type { Message, Role } from "./message.ts";
import { callHint, type Fail, readCall, withCallIds } from "./tool-call-ids.ts";

const roles: readonly Role[] = ["system", "developer", "user", "assistant", "tool"];
const roleHint = `Use one of ${roles.join(", ")}.`;

export interface ValidateOptions {
  /** Put before the message in errors: `file.jsonl, line 3`. */
  where?: string;
  code?: ErrorCode;
  /** What was said before, where these go on with it: their tool messages may answer its calls. */
  after?: readonly Message[];
}

/**
 * Checks that a value is a conversation in the OpenAI chat format and returns it with plain contents: text parts are joined, a
 * refusal is a content, no content beside tool calls is an empty one, and `reasoning_content` is reasoning. Tool calls are written out whole, and tool messages say
 * which call they answer.
 */
export function validateMessages(value: unknown, options: ValidateOptions = {}): Message[] {
  const { where = "messages", code = "INVALID_MESSAGE", after = [] } = options;
  if (!Array.isArray(value))
    throw new StatesetError(code, `${where}: expected a list of messages, got ${kind(value)}.`);
  const fail: Fail = (i, what, hint) => {
    throw new StatesetError(code, `${where}: message ${i + 1} ${what}.`, hint === undefined ? {} : { hint });
  };
  const messages = value.map((message, i) => validateMessage(message, (what, hint) => fail(i, what, hint)));
  return withCallIds(messages, after, fail);
}

/** A chat template leaves out what it has no branch for, so that a role nobody knows would be a message nobody reads. */
export function requireKnownRoles(messages: readonly { role: string }[]): void {
  const at = messages.findIndex(({ role }) => !roles.includes(role as Role));
  if (at < 0) return;
  const what = `messages: message ${at + 1} has role ${JSON.stringify(messages[at]!.role)}.`;
  throw new StatesetError("INVALID_MESSAGE", what, { hint: roleHint });
}

function validateMessage(value: unknown, fail: (what: string, hint?: string) => never): Message {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return fail(`is ${kind(value)}, not an object`);
  // What was sampled is known to whoever sampled it; no file or caller may say so.
  const { sampled: _, refusal, reasoning_content, ...message } = withoutNulls(value);
  if (reasoning_content !== undefined) message.reasoning ??= reasoning_content;
  if (typeof message.role !== "string" || !roles.includes(message.role as Role)) {
    return fail(`has role ${JSON.stringify(message.role)}`, roleHint);
  }
  const role = message.role as Role;
  const calls = message.tool_calls;
  if (calls !== undefined) {
    if (role !== "assistant")
      fail(`has tool_calls, but its role is "${role}"`, "Only assistant messages can call tools.");
    const read = Array.isArray(calls) ? calls.map(readCall) : [undefined];
    if (read.includes(undefined)) fail("has malformed tool_calls", callHint);
    message.tool_calls = read;
  }
  const content = textOf(message.content) ?? refusal ?? (Array.isArray(calls) && calls.length > 0 ? "" : undefined);
  if (typeof content !== "string") {
    return fail(`has content that is ${kind((value as { content?: unknown }).content)}, not a string`);
  }
  for (const key of ["name", "tool_call_id", "reasoning"]) {
    if (message[key] !== undefined && typeof message[key] !== "string") fail(`has a ${key} that is not a string`);
  }
  if (![undefined, 0, 1].includes(message.weight as 0 | 1 | undefined)) fail("has a weight that is neither 0 nor 1");
  return { ...message, role, content };
}

const nullable = new Set([
  ...["content", "refusal", "name", "tool_calls", "tool_call_id", "reasoning", "reasoning_content", "weight"],
]);

/** OpenAI's libraries write null for fields that do not apply. */
function withoutNulls(value: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).filter(([key, part]) => part !== null || !nullable.has(key)));
}

/** OpenAI also writes content as a list of parts; those that are text are joined. Anything else is left for the check. */
function textOf(content: unknown): unknown {
  const isText = (part: unknown) =>
    (part as { type?: unknown } | null)?.type === "text" && typeof (part as { text?: unknown }).text === "string";
  if (!Array.isArray(content) || !content.every(isText)) return content;
  if (content.length === 0) return undefined;
  return content.map((part: { text: string }) => part.text).join("");
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

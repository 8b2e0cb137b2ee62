/** Tool calls as data brings them, short or without ids, made into those of the OpenAI chat format. */
import type { Message, ToolCall } from "./message.ts";

/** Refuses message `index`. */
export type Fail = (index: number, what: string, hint?: string) => never;

/** A call that may have no id yet. */
type Unnamed = Omit<ToolCall, "id"> & { id?: string };

export const callHint =
  'Each is {"id", "type": "function", "function": {"name", "arguments"}} or {"name", "arguments"}; the arguments are JSON text or an object.';

/** Undefined where it is no call. */
export function readCall(value: unknown): Unnamed | undefined {
  if (!isObject(value)) return undefined;
  const { id, type, function: inner, ...rest } = value;
  if ((id !== undefined && id !== null && typeof id !== "string") || (type ?? "function") !== "function")
    return undefined;
  const short = inner === undefined;
  const call = short ? rest : inner;
  if (!isObject(call) || typeof call.name !== "string") return undefined;
  const text =
    typeof call.arguments === "string"
      ? call.arguments
      : isObject(call.arguments)
        ? JSON.stringify(call.arguments)
        : undefined;
  if (text === undefined) return undefined;
  if (typeof id === "string" && type !== undefined && !short && text === call.arguments)
    return value as unknown as ToolCall;
  const written = {
    ...(short ? {} : rest),
    type: "function" as const,
    function: { ...call, name: call.name, arguments: text },
  };
  return typeof id === "string" ? { id, ...written } : written;
}

/**
 * Gives calls without an id one, and tool messages without one that of the call they answer: the only one of their name that is open, or
 * the next where as many answers follow as there are such calls. `after` is what was said before.
 */
export function withCallIds(messages: readonly Message[], after: readonly Message[], fail: Fail): Message[] {
  if (!messages.some(({ role, tool_calls }) => role === "tool" || tool_calls)) return messages as Message[];
  const taken = new Set([...after, ...messages].flatMap(({ tool_calls = [] }) => tool_calls.map(({ id }) => id)));
  let made = 0;
  // Nine letters and digits: Mistral's templates take no other.
  const next = () => {
    let id: string;
    do id = `call${String(++made).padStart(5, "0")}`;
    while (taken.has(id));
    return id;
  };
  let open = openCalls(after);
  return messages.map((message, i) => {
    if (message.tool_calls?.length) {
      const calls = message.tool_calls.map((call) => (call.id === undefined ? { ...call, id: next() } : call));
      open = calls;
      return { ...message, tool_calls: calls };
    }
    if (message.role !== "tool") return message;
    const id = message.tool_call_id ?? answered(messages, i, open, fail);
    open = open.filter((call) => call.id !== id);
    return { ...message, tool_call_id: id };
  });
}

/** The calls of the last message that made some which nobody has answered. */
function openCalls(messages: readonly Message[]): ToolCall[] {
  const at = messages.findLastIndex(({ tool_calls }) => tool_calls?.length);
  if (at < 0) return [];
  const answers = new Set(messages.slice(at).map(({ tool_call_id }) => tool_call_id));
  return messages[at]!.tool_calls!.filter(({ id }) => !answers.has(id));
}

function answered(messages: readonly Message[], index: number, open: readonly ToolCall[], fail: Fail): string {
  const { name } = messages[index]!;
  const possible = name === undefined ? open : open.filter((call) => call.function.name === name);
  const called = name === undefined ? "" : ` to "${name}"`;
  if (possible.length === 0) {
    fail(index, `is a tool result without tool_call_id, and no call${called} before it is unanswered`, idHint);
  }
  if (
    possible.length > 1 &&
    answersFrom(messages, index).filter((one) => one.name === name).length !== possible.length
  ) {
    fail(
      index,
      `is a tool result without tool_call_id, and could answer any of ${possible.length} calls${called}`,
      idHint,
    );
  }
  return possible[0]!.id;
}

const idHint = "Name the call it answers: tool_call_id is the id of one of the tool_calls before it.";

/** The tool messages without an id from here to the next calls. */
function answersFrom(messages: readonly Message[], index: number): Message[] {
  const rest = messages.slice(index);
  const end = rest.findIndex(({ tool_calls }) => tool_calls?.length);
  return rest
    .slice(0, end < 0 ? undefined : end)
    .filter((one) => one.role === "tool" && one.tool_call_id === undefined);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

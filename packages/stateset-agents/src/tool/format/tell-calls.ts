/**
 * Calls and their results in a form that a chat template can print. Many templates print no calls, or one a reply at most; some refuse
 * the turn of a tool, or leave it out, so that the model would never learn what its call brought.
 */
import { unreadableCalls } from "../../conversation/call-notes.ts";
import type { Message, ToolCall } from "../../conversation/message.ts";
import type { CallFormat, WrittenCall } from "./call-format.ts";

/** As they are; calls as words of the reply; these, and results as words of the user. */
export const callForms = ["template", "words", "user"] as const;
export type CallForm = (typeof callForms)[number];

export interface TellOptions {
  format: CallFormat;
  /** Of replies with one call, and of those with several. */
  one: CallForm;
  several: CallForm;
  /** Of replies whose calls nobody answered before the conversation went on: some templates want an answer to every call. */
  unanswered: Exclude<CallForm, "user">;
}

export function tellCalls(messages: readonly Message[], options: TellOptions): Message[] {
  const { format, one, several, unanswered } = options;
  if ([one, several, unanswered].every((form) => form === "template")) return [...messages];
  const told: Message[] = [];
  let form = one;
  let results = false;
  for (const [i, message] of messages.entries()) {
    const { tool_calls: calls = [], ...rest } = message;
    if (calls.length > 0) {
      form = calls.length > 1 ? several : one;
      if (form === "template" && (messages[i + 1]?.role ?? "tool") !== "tool") form = unanswered;
      const words = [message.content, printed(message, calls, format)].filter(Boolean).join("\n");
      told.push(form === "template" ? message : { ...rest, content: words });
    } else if (message.role === "tool" && form === "user") {
      const content = `Result of ${message.name ?? "the call"}:\n${message.content}`;
      // One turn: such templates want user and assistant to take turns.
      const before = results ? told.pop()! : undefined;
      told.push({ role: "user", content: before ? `${before.content}\n${content}` : content });
    } else told.push(message);
    results = message.role === "tool";
  }
  return told;
}

function printed(message: Message, calls: readonly ToolCall[], format: CallFormat): string {
  const problems = unreadableCalls(message);
  const isWhole = ({ id, function: { arguments: args } }: ToolCall) => !(id in problems) && isObject(args);
  if (calls.every(isWhole)) return format.print(calls.map(respaced));
  return calls.map((call) => (isWhole(call) ? format.print([respaced(call)]) : call.function.arguments)).join("\n");
}

/** With arguments spaced as most models write them: clients send them back spaced and escaped in their own way, and it must stay the same reply. */
function respaced({ function: { name, arguments: args } }: ToolCall): WrittenCall {
  const spaced = (part: string) => {
    if (part.startsWith('"')) return JSON.stringify(JSON.parse(part));
    return part === "," || part === ":" ? `${part} ` : "";
  };
  return { name, arguments: args.replace(/"(?:[^"\\]|\\.)*"|[,:]|\s+/g, spaced) };
}

function isObject(text: string): boolean {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

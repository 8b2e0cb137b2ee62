import type { Message, ToolCall } from "../../conversation/message.ts";
import type { RenderOptions } from "../policy.ts";
import { attempt, type FindTail, type Tail } from "./reply-tail.ts";

/** What is rendered in place of a whole conversation: the system message, the last user message before the reply, and the rest. */
export function windowOf(messages: readonly Message[], at: number): { messages: readonly Message[]; at: number } {
  const first = messages[0]?.role === "system" || messages[0]?.role === "developer" ? 1 : 0;
  const user = messages.findLastIndex(({ role }, i) => i < at && role === "user");
  if (user < first) return { messages, at };
  const head = [...messages.slice(0, first), messages[user]!];
  return { messages: [...head, ...messages.slice(at)], at: head.length };
}

/**
 * Conversations of many shapes, the reply in question marked by a star. S system, U user, A a reply, C one that calls a tool,
 * D one that calls two, T a tool's result; r before a reply: with reasoning; k: with reasoning written into its content.
 */
const shapes = [
  "U A* U",
  "S U A* U",
  "S U A*",
  "U A U A* U",
  "S U A U A U A* U",
  `S ${"U A ".repeat(12)}U A* U`,
  "U U A* U",
  "S U A* U U",
  "U C* T",
  "S U C* T",
  "U D* T T",
  "U C T A* U",
  "S U C T C T C* T",
  "S U A U D T T A* U",
  "U rA* U",
  "U rA U rA* U",
  "U rC* T",
  "U rC T rA* U",
  "S U rC T rC T rC* T",
  "S U rC T rA U rC T rA* U",
  "S U kA U kC T kA* U",
].map((shape) => shape.split(" "));

const reasoning = "It was asked, so think.";

/** Probing costs a few milliseconds; whoever varies variables without end is served the slow way. */
const mostKinds = 32;

type ExactFinder = (
  messages: readonly Message[],
  at: number,
  sampled: ReadonlySet<number>,
  options: RenderOptions,
) => Tail | undefined;

/**
 * Finds out, once for each kind of options, whether a template prints after a reply what it prints in a short window of the
 * conversation, and prints nothing again otherwise than before. `written`: with replies in the past that were not sampled, so that
 * their text must stay the template's.
 */
export function createTemplateProbe(findTail: FindTail, findExactTail: ExactFinder) {
  const known = new Map<string, boolean>();
  return (options: RenderOptions, written: boolean): boolean => {
    const tools = (options.tools ?? []).length > 0;
    const kind = JSON.stringify([tools, written, options.templateVariables ?? {}]);
    const before = known.get(kind);
    if (before !== undefined) return before;
    if (known.size >= mostKinds) return false;
    const results = shapes.map((shape) => tryShape(shape, { ...options, addGenerationPrompt: true }));
    const exact = results.includes(true) && !results.includes(false);
    known.set(kind, exact);
    return exact;

    /** Undefined when the template has no place for such a conversation. */
    function tryShape(shape: readonly string[], options: RenderOptions): boolean | undefined {
      const messages = shape.map(messageFor);
      const at = shape.findIndex((part) => part.endsWith("*"));
      const replies = [...messages.keys()].filter((i) => i < at && messages[i]!.role === "assistant");
      const whole = attempt(() => ({ tail: findExactTail(messages, at, new Set(written ? [] : replies), options) }));
      if (!whole) return undefined;
      const view = windowOf(messages, at);
      const tail = attempt(() => findTail(view.messages, view.at, options));
      return tail !== undefined && tail.text === whole.tail?.text && tail.end === whole.tail.end;
    }
  };
}

function messageFor(part: string, index: number): Message {
  const content = `number ${index}`;
  const kind = part.replace("*", "").at(-1)!;
  if (kind === "S") return { role: "system", content };
  if (kind === "U") return { role: "user", content };
  if (kind === "T") return { role: "tool", content, name: "look", tool_call_id: "callprobe" };
  const calls = kind === "A" ? 0 : kind === "C" ? 1 : 2;
  const call: ToolCall = { id: "callprobe", type: "function", function: { name: "look", arguments: '{"at":1}' } };
  return {
    role: "assistant",
    content: part.startsWith("k") ? `<think>\n${reasoning}\n</think>\n\n${content}` : content,
    ...(part.startsWith("r") && { reasoning }),
    ...(calls > 0 && { tool_calls: Array.from({ length: calls }, () => call) }),
  };
}

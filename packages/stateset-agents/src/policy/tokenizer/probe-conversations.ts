/** Conversations that a template is tried out on. */
import type { Message, ToolCall } from "../../conversation/message.ts";
import type { ToolDefinition } from "../../conversation/tool-definition.ts";

/**
 * Conversations of many shapes, the reply in question marked by a star. S system, U user, A a reply, C one that calls a tool,
 * D one that calls two, T a tool's result; r before a reply: with reasoning; k: with reasoning written into its content.
 */
export const shapes = [
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

/** Those in which it is said what a template looks for. */
export const searched = ["U A U A* U", "S U C T rA U C T C* T"].map((shape) => shape.split(" "));

export const tool: ToolDefinition = {
  type: "function",
  function: {
    name: "look",
    description: "Looks.",
    parameters: { type: "object", properties: { at: { type: "string" } } },
  },
};

export function contentAt(index: number): string {
  return `message ${index}.`;
}

export function argumentAt(index: number): string {
  return `argument ${index}.`;
}

export function messageFor(part: string, index: number): Message {
  const content = contentAt(index);
  const kind = part.replace("*", "").at(-1)!;
  if (kind === "S") return { role: "system", content };
  if (kind === "U") return { role: "user", content };
  if (kind === "T") return { role: "tool", content, name: "look", tool_call_id: "callprobe" };
  const reasoning = "It was asked, so think.";
  const args = JSON.stringify({ at: argumentAt(index) });
  const call: ToolCall = { id: "callprobe", type: "function", function: { name: "look", arguments: args } };
  const calls = kind === "A" ? 0 : kind === "C" ? 1 : 2;
  return {
    role: "assistant",
    content: part.startsWith("k") ? `<think>\n${reasoning}\n</think>\n\n${content}` : content,
    ...(part.startsWith("r") && { reasoning }),
    ...(calls > 0 && { tool_calls: Array.from({ length: calls }, () => call) }),
  };
}

/** Tool calls as they come back from clients, who may have read their arguments and written them anew. */
import type { ToolCall } from "./message.ts";
import { sameJson } from "./same-json.ts";

/** What is nested deeper is compared as text: part by part it could take more than the stack holds. */
const deepest = 64;

/** Whether two lists of calls say the same: spaces and the order of keys in arguments do not matter; with `ids: false`, nor do ids. */
export function sameCalls(a: readonly ToolCall[], b: readonly ToolCall[], { ids = true } = {}): boolean {
  const read = ({ id, ...call }: ToolCall) => ({
    ...call,
    ...(ids && { id }),
    function: { ...call.function, arguments: argumentsOf(call.function?.arguments) },
  });
  return sameJson(a, b) || sameJson(a.map(read), b.map(read));
}

/** What a call's arguments say: an object, or the text itself where it is none. */
export function argumentsOf(text: string): unknown {
  const value = parseShallow(text);
  return typeof value === "object" && value !== null ? value : text;
}

/** What JSON text says, or the text itself where it is none or deeper than anybody may go into it. */
export function parseShallow(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    return depthOf(text) <= deepest ? value : text;
  } catch {
    return text;
  }
}

/** Of JSON text. */
function depthOf(text: string): number {
  let [depth, most] = [0, 0];
  for (const [part] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/g)) {
    if (part === "{" || part === "[") most = Math.max(most, ++depth);
    else if (part === "}" || part === "]") depth--;
  }
  return most;
}

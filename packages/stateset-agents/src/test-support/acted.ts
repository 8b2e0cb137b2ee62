/** Conversations with tools, written down for tests of rewards. */
import type { Turn } from "../conversation/trajectory.ts";

/** A call, what came of it, and the state of the world after it. */
export interface Acted {
  call: string;
  arguments?: object | string;
  result?: string;
  /** The kind, where it failed. */
  failure?: string;
  stateHash?: string;
}

/** User texts, replies in words, and rounds of calls with their results; a lone text is the user's at first and then by turns. */
export function acted(user: string, ...said: (string | Acted | Acted[])[]): Turn[] {
  const turns: Turn[] = [{ role: "user", content: user }];
  let made = 0;
  for (const one of said) {
    if (typeof one === "string") {
      turns.push({ role: turns.at(-1)!.role === "assistant" ? "user" : "assistant", content: one });
      continue;
    }
    const calls = [one].flat().map((own) => ({ ...own, id: `call${String(++made).padStart(5, "0")}` }));
    const tool_calls = calls.map(({ id, call, arguments: given = {} }) => ({
      id,
      type: "function" as const,
      function: { name: call, arguments: typeof given === "string" ? given : JSON.stringify(given) },
    }));
    turns.push({ role: "assistant", content: "", tool_calls });
    for (const { id, call, result = "ok", failure, stateHash } of calls) {
      const metadata = { ...(failure && { toolFailure: failure }), ...(stateHash && { stateHash }) };
      turns.push({ role: "tool", name: call, tool_call_id: id, content: result, metadata });
    }
  }
  return turns;
}

import type { Turn } from "./trajectory.ts";

/** Most characters of a call or a result that are shown. */
const widest = 200;

/** What a turn did, beside words: a line a call, a line a result. */
export function actionsOf({ role, content, tool_calls = [], metadata }: Turn): string[] {
  const short = (text: string) => {
    const line = text.replace(/\s+/g, " ").trim();
    return line.length > widest ? `${line.slice(0, widest)} …` : line;
  };
  if (role === "tool") return [`${metadata?.toolFailure ? "✗" : "←"} ${short(content)}`];
  return tool_calls.map(({ function: { name, arguments: args } }) => `→ ${name} ${short(args)}`);
}

/** A turn as lines: what was said, after who said it, then what was done. */
export function turnLines(turn: Turn, speaker: string): string[] {
  const actions = actionsOf(turn);
  const silent = turn.role === "tool" || (actions.length > 0 && turn.content.trim() === "");
  return [...(silent ? [] : [`${speaker}: ${turn.content}`]), ...actions];
}

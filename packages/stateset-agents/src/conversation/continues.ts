import type { ChainState, SampledReply } from "./chain.ts";
import type { Message } from "./message.ts";
import type { ChainStart } from "./trajectory.ts";

/** Why a conversation cannot go on with a chain's tokens; undefined when, as far as messages say, it can. */
export function whyRestart(
  chain: ChainState | undefined,
  messages: readonly Message[],
  options: Pick<ChainState, "tools" | "templateVariables">,
): ChainStart | undefined {
  if (!chain) return "first-prompt";
  if (!sameJson(chain.tools ?? [], options.tools ?? [])) return "tools-changed";
  if (!sameJson(chain.templateVariables ?? {}, options.templateVariables ?? {})) return "variables-changed";
  const at = chain.messages.length;
  if (!chain.messages.every((message, i) => messages[i] && sameMessage(message, messages[i])))
    return "messages-changed";
  const next = messages[at];
  if (!chain.reply || next?.role !== "assistant") return "messages-changed";
  return standsFor(next, chain.reply) ? undefined : "reply-edited";
}

/**
 * Whether a message is the reply that was sampled, give or take the spaces around it. It may have been taken apart since, into
 * tool calls, reasoning and what is left; then it is enough that these words were sampled. What is missing was said all the same.
 */
function standsFor({ content, reasoning, tool_calls }: Message, { message, text }: SampledReply): boolean {
  const takenApart = reasoning !== undefined || (tool_calls !== undefined && tool_calls.length > 0);
  const words = content.trim();
  const said = [message.content, text].some((whole) => whole.trim() === words) || (takenApart && text.includes(words));
  return said && text.includes((reasoning ?? "").trim());
}

/** The same for a template: rewards and other notes about a turn do not count. */
function sameMessage(a: Message, b: Message): boolean {
  if (a === b) return true;
  return (
    a.role === b.role &&
    a.content === b.content &&
    a.name === b.name &&
    a.tool_call_id === b.tool_call_id &&
    a.reasoning === b.reasoning &&
    sameJson(a.tool_calls ?? [], b.tool_calls ?? [])
  );
}

function sameJson(a: unknown, b: unknown): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}

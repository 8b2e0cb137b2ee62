import type { Message, Role, ToolCall } from "../../conversation/message.ts";
import type { ForeignText } from "./foreign-text.ts";
import type { JsonObject } from "./model-json.ts";

export interface TemplateMessageOptions {
  textArguments: boolean;
  developerRole: boolean;
}

/** What a turn carries for the library alone. */
const ours = new Set(["reward", "metadata", "sampled"]);

/** Roles are no text; anything else in their place is. */
const roles: ReadonlySet<unknown> = new Set<Role>(["system", "developer", "user", "assistant", "tool"]);

/**
 * A message under the names templates know. All but the role is foreign. Fields that the library does not know are passed on,
 * because some templates do.
 */
export function messageForTemplate(
  message: Message,
  { textArguments, developerRole }: TemplateMessageOptions,
  foreign: ForeignText,
): JsonObject {
  const parts = Object.entries(message).filter(([key]) => !ours.has(key));
  return Object.fromEntries(
    parts.map(([key, part]) => {
      if (key === "role" && roles.has(part)) return [key, part === "developer" && !developerRole ? "system" : part];
      if (key === "reasoning") return ["reasoning_content", foreign.value(part)];
      if (key === "tool_calls" && part) return [key, callsForTemplate(part as ToolCall[], textArguments, foreign)];
      // Names that the library does not know are as foreign as what stands under them.
      return Object.entries(foreign.value({ [key]: part }) as JsonObject)[0]!;
    }),
  );
}

/** Arguments stay the text the model wrote wherever the template can print that. */
function callsForTemplate(calls: readonly ToolCall[], textArguments: boolean, foreign: ForeignText): JsonObject[] {
  return calls.map(({ id, type, function: { name, arguments: args } }) => {
    const given = foreign.value(textArguments ? args : parsedOr(args), "chosen");
    const kind = type === "function" ? type : foreign.value(type);
    return { id: foreign.text(id), type: kind, function: { name: foreign.text(name), arguments: given } };
  });
}

function parsedOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

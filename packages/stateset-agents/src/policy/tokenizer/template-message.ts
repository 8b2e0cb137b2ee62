import type { Message, Role, ToolCall } from "../../conversation/message.ts";
import { parseShallow } from "../../conversation/same-calls.ts";
import { turnNotes } from "../../conversation/trajectory.ts";
import type { Value } from "./jinja/library.ts";
import { foreignValue, TracedObject } from "./jinja/objects.ts";
import { ownString } from "./jinja/strings.ts";
import type { Mark } from "./traced-text.ts";

export interface TemplateMessageOptions {
  textArguments: boolean;
  developerRole: boolean;
}

/** Roles are no text; anything else in their place is. */
const roles: ReadonlySet<unknown> = new Set<Role>(["system", "developer", "user", "assistant", "tool"]);

/**
 * A message under the names templates know. All but the role is foreign. Fields that the library does not know are passed on,
 * because some templates do.
 */
export function messageForTemplate(
  message: Message,
  { textArguments, developerRole }: TemplateMessageOptions,
  mark: Mark,
): Value {
  const parts = Object.entries(message).filter(([key]) => !turnNotes.has(key));
  const fields = parts.map(([key, part]): [string, Value] => {
    if (key === "role" && roles.has(part))
      return [key, ownString(part === "developer" && !developerRole ? "system" : part)];
    if (key === "reasoning") return ["reasoning_content", foreignValue(part, mark)];
    if (key === "tool_calls" && part) return [key, foreignValue(callsForTemplate(part, textArguments), mark)];
    return [key, foreignValue(part, mark)];
  });
  return new TracedObject(new Map(fields), undefined, mark);
}

/** Arguments stay the text the model wrote wherever the template can print that. */
function callsForTemplate(calls: readonly ToolCall[], textArguments: boolean): unknown {
  return calls.map(({ id, type, function: { name, arguments: args } }) => {
    return { id, type, function: { name, arguments: textArguments ? args : parseShallow(args) } };
  });
}

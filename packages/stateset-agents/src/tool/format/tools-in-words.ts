/** Tools told in the system text, for chat templates that have no place for them. */
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import type { CallFormat } from "./call-format.ts";

export function toolsInWords(tools: readonly ToolDefinition[], format: CallFormat): string {
  const listed = tools.map((tool) => JSON.stringify(tool.function)).join("\n");
  const example = format.print([{ name: "function_name", arguments: '{"argument": "value"}' }]);
  return `You can call these functions:\n${listed}\n\nTo call one, write this and nothing after it:\n${example}\nYou are then told the result.`;
}

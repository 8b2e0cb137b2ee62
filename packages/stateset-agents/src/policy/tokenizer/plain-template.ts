import type { Message, Role } from "../../conversation/message.ts";
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import type { ChatRenderer } from "./chat-renderer.ts";
import type { ForeignText } from "./foreign-text.ts";

const labels: Record<Role, string> = {
  system: "System",
  developer: "System",
  user: "User",
  assistant: "Assistant",
  tool: "Tool",
};

/**
 * For models without a chat template, such as GPT-2: one `Role: content` block a message, an assistant's reply closed by the
 * end-of-text token. The opening has no space after the colon, because these models write the space as part of the first word.
 *
 *     System: Be brief.
 *     User: Hello!
 *     Assistant: Hi.<|endoftext|>
 *     User: …
 *     Assistant:
 */
export function createPlainRenderer({ bos = "", eos = "" }: { bos?: string; eos?: string }): ChatRenderer {
  return (messages, { tools, addGenerationPrompt }, foreign) => {
    const listed = tools && tools.length > 0 ? [toolList(tools, foreign)] : [];
    const turns = messages.map((message) => {
      const content = contentOf(message, foreign);
      const space = /^\s/.test(content) || content === "" ? "" : " ";
      return `${labels[message.role]}:${space}${content}${message.role === "assistant" ? eos : ""}\n`;
    });
    return [bos, ...listed, ...turns, addGenerationPrompt ? `${labels.assistant}:` : ""].join("");
  };
}

/** Tool calls are printed in the tags that most open models use. */
export function contentOf({ content, tool_calls = [] }: Message, foreign: ForeignText): string {
  const calls = tool_calls.map(({ function: { name, arguments: args } }) => {
    const called = JSON.stringify(foreign.text(name));
    return `<tool_call>\n{"name": ${called}, "arguments": ${foreign.text(args)}}\n</tool_call>`;
  });
  return [...(content === "" ? [] : [foreign.text(content)]), ...calls].join("\n");
}

function toolList(tools: readonly ToolDefinition[], foreign: ForeignText): string {
  const lines = tools.map((tool) => JSON.stringify(foreign.value(tool.function)));
  return `${labels.system}: Tools you can call:\n${lines.join("\n")}\n`;
}

import type { Message, Role } from "../../conversation/message.ts";
import type { ToolDefinition } from "../../conversation/tool-definition.ts";
import type { ChatRenderer } from "./chat-renderer.ts";
import { concat, foreignText, join, marks, type TracedText } from "./traced-text.ts";

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
  return {
    lookedFor: [],
    measures: false,
    print(messages, { tools, addGenerationPrompt }, reply) {
      const turns = messages.map((message, i) => {
        const content = contentOf(message, i === reply);
        const space = /^\s/.test(content.text) || content.text === "" ? "" : " ";
        const label = labels[message.role] ?? foreignText(String(message.role));
        return concat([label, ":", space, content, message.role === "assistant" ? eos : "", "\n"]);
      });
      const listed = tools && tools.length > 0 ? toolList(tools) : "";
      return concat([bos, listed, ...turns, addGenerationPrompt ? `${labels.assistant}:` : ""]);
    },
  };
}

/** Tool calls are printed in the tags that most open models use. */
export function contentOf({ content, tool_calls = [] }: Message, isReply: boolean): TracedText {
  const mark = isReply ? marks.reply : marks.said;
  const calls = tool_calls.map(({ function: { name, arguments: args } }) => {
    const [called, asked] = [JSON.stringify(name), args].map((text) => foreignText(text, mark));
    return concat(['<tool_call>\n{"name": ', called!, ', "arguments": ', asked!, "}\n</tool_call>"]);
  });
  return join([...(content === "" ? [] : [foreignText(content, mark)]), ...calls], "\n");
}

function toolList(tools: readonly ToolDefinition[]): TracedText {
  const lines = tools.map((tool) => foreignText(JSON.stringify(tool.function), marks.given));
  return concat([`${labels.system}: Tools you can call:\n`, join(lines, "\n"), "\n"]);
}

import type { Message } from "../conversation/message.ts";
import type { ChatTokenizer, RenderOptions, TokenSegment } from "../policy/policy.ts";

const roles = { system: "<system>", user: "<user>", assistant: "<assistant>", tool: "<tool>" } as const;
export const endToken = "<end>";
const special = [endToken, ...Object.values(roles), "<unknown>"];

/** A tokenizer of whole words: special tokens first, then the given words; other words become `<unknown>`. */
export function createTableTokenizer(words: readonly string[]): ChatTokenizer & { idOf(token: string): number } {
  const tokens = [...special, ...words];
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const unknown = ids.get("<unknown>")!;
  const idOf = (token: string) => ids.get(token) ?? unknown;
  const encode = (text: string) => Int32Array.from(text.split(/\s+/).filter(Boolean), idOf);
  const parts = (message: Message) => ({
    head: `${roles[message.role]} `,
    body: `${encodeWords(message.content)}${endToken} `,
  });
  const opening = `${roles.assistant} `;
  const render = (messages: readonly Message[], options: RenderOptions = {}) => {
    const text = messages.map((message) => parts(message).head + parts(message).body).join("");
    return options.addGenerationPrompt ? text + opening : text;
  };
  return {
    vocabSize: tokens.length,
    idOf,
    encode,
    decode: (list, { skipSpecial = true } = {}) =>
      Array.from(list, (id) => tokens[id] ?? "<unknown>")
        .filter((token) => !skipSpecial || !special.includes(token))
        .join(" "),
    render,
    segments(messages, options = {}) {
      const segments: TokenSegment[] = [];
      messages.forEach((message, index) => {
        const { head, body } = parts(message);
        segments.push({ tokens: encode(head), message: index, generated: false });
        segments.push({ tokens: encode(body), message: index, generated: message.role === "assistant" });
      });
      if (options.addGenerationPrompt)
        segments.push({ tokens: encode(opening), message: messages.length, generated: false });
      return segments;
    },
    extend(chain, messages, options) {
      const text = render(messages, options);
      if (chain && text.startsWith(chain.text)) {
        const rest = text.slice(chain.text.length);
        return { kind: "append", tokens: encode(rest), text: rest };
      }
      return { kind: "restart", tokens: encode(text), text };
    },
  };
}

/** Every word followed by one space, so that a prefix of a conversation is a prefix of its text. */
function encodeWords(text: string): string {
  return text
    .split(/\s+/)
    .filter(Boolean)
    .map((word) => `${word} `)
    .join("");
}

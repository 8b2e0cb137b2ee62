import { whyRestart } from "../conversation/continues.ts";
import type { Message } from "../conversation/message.ts";
import type { ChatTokenizer, RenderOptions, TokenSegment } from "../policy/policy.ts";

const roles = {
  system: "<system>",
  developer: "<system>",
  user: "<user>",
  assistant: "<assistant>",
  tool: "<tool>",
} as const;
export const endToken = "<end>";
const special = [endToken, "<system>", "<user>", "<assistant>", "<tool>", "<unknown>"];

/** A tokenizer of whole words: special tokens first, then the given words; other words, and words that spell a special token, become `<unknown>`. */
export function createTableTokenizer(words: readonly string[]): ChatTokenizer & { idOf(token: string): number } {
  const tokens = [...special, ...words];
  const ids = new Map(tokens.map((token, id) => [token, id]));
  const unknown = ids.get("<unknown>")!;
  const idOf = (token: string) => ids.get(token) ?? unknown;
  const wordsOf = (text: string) => text.split(/\s+/).filter(Boolean);
  const foreign = (text: string) => wordsOf(text).map((word) => (special.includes(word) ? unknown : idOf(word)));
  const head = ({ role }: Message) => idOf(roles[role]);
  const body = ({ content }: Message) => [...foreign(content), idOf(endToken)];
  const encodeAll = (messages: readonly Message[], { addGenerationPrompt }: RenderOptions) => [
    ...messages.flatMap((message) => [head(message), ...body(message)]),
    ...(addGenerationPrompt ? [idOf(roles.assistant)] : []),
  ];
  return {
    vocabSize: tokens.length,
    idOf,
    encode: (text, { control = false } = {}) => Int32Array.from(control ? wordsOf(text).map(idOf) : foreign(text)),
    decode: (list, { skipSpecial = true } = {}) =>
      Array.from(list, (id) => tokens[id] ?? "<unknown>")
        .filter((token) => !skipSpecial || !special.includes(token))
        .join(" "),
    render(messages, { addGenerationPrompt } = {}) {
      const turns = messages.map(({ role, content }) => [roles[role], ...wordsOf(content), endToken, ""].join(" "));
      return turns.join("") + (addGenerationPrompt ? `${roles.assistant} ` : "");
    },
    segments(messages, options = {}) {
      const segments: TokenSegment[] = messages.flatMap((message, index) => [
        { tokens: Int32Array.of(head(message)), message: index, generated: false },
        { tokens: Int32Array.from(body(message)), message: index, generated: message.role === "assistant" },
      ]);
      const opening = Int32Array.of(idOf(roles.assistant));
      return options.addGenerationPrompt
        ? [...segments, { tokens: opening, message: messages.length, generated: false }]
        : segments;
    },
    extend(chain, messages, options = {}) {
      const reason = whyRestart(chain, messages, options);
      if (reason) return { kind: "restart", tokens: Int32Array.from(encodeAll(messages, options)), reason };
      const added = encodeAll(messages.slice(chain!.messages.length + 1), options);
      return {
        kind: "append",
        tokens: Int32Array.from(chain!.reply!.ended === "end-token" ? added : [idOf(endToken), ...added]),
      };
    },
  };
}

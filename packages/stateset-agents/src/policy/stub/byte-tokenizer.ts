import type { Role } from "../../conversation/message.ts";
import type { ChatRenderer } from "../tokenizer/chat-renderer.ts";
import { createChatTokenizer, type LoadedTokenizer } from "../tokenizer/chat-tokenizer.ts";
import type { TextCodec } from "../tokenizer/codec.ts";
import { createSigner, splitAtSigns } from "../tokenizer/control-tokens.ts";
import { contentOf } from "../tokenizer/plain-template.ts";
import { concat, foreignText, join, marks, type TracedText } from "../tokenizer/traced-text.ts";

/** Ids 0–255 are the bytes of UTF-8 text, the rest are these. */
const specialTexts = ["<|im_start|>", "<|im_end|>"];

export const startOfTurn = 256;
export const endOfTurn = 257;

/** A tokenizer without a vocabulary file: bytes, rendered as ChatML. */
export function createByteTokenizer(): LoadedTokenizer {
  return createChatTokenizer({ codec, renderer: renderChatml, endTokens: [endOfTurn] });
}

const controlTokens = specialTexts.map((text, index) => ({ id: 256 + index, text }));

const codec: TextCodec = {
  tokenBytes: () => ({
    bytes: Array.from({ length: 256 + specialTexts.length }, (_, id) =>
      id < 256 ? Uint8Array.of(id) : Buffer.from(specialTexts[id - 256]!),
    ),
    control: new Set(controlTokens.map(({ id }) => id)),
  }),
  vocabSize: 256 + specialTexts.length,
  specialIds: new Set(controlTokens.map(({ id }) => id)),
  controlTokens,
  sign: createSigner(controlTokens),
  encode: (signed) =>
    splitAtSigns(signed).flatMap((part) => (typeof part === "string" ? [...Buffer.from(part, "utf8")] : [part])),
  decode(tokens) {
    const bytes = tokens.flatMap((token) => {
      const special = specialTexts[token - 256];
      return special === undefined ? (token >= 0 && token < 256 ? [token] : []) : [...Buffer.from(special)];
    });
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  },
};

const labels: Record<Role, string> = {
  system: "system",
  developer: "system",
  user: "user",
  assistant: "assistant",
  tool: "tool",
};

const renderChatml: ChatRenderer = {
  lookedFor: [],
  measures: false,
  print(messages, { tools = [], addGenerationPrompt }, reply) {
    const turn = (role: TracedText | string, content: TracedText) =>
      concat(["<|im_start|>", role, "\n", content, "<|im_end|>\n"]);
    const lines = tools.map((tool) => foreignText(JSON.stringify(tool), marks.given));
    const listed = tools.length > 0 ? turn("system", concat(["Tools:\n", join(lines, "\n")])) : "";
    const turns = messages.map((message, i) =>
      turn(labels[message.role] ?? foreignText(String(message.role)), contentOf(message, i === reply)),
    );
    return concat([listed, ...turns, addGenerationPrompt ? "<|im_start|>assistant\n" : ""]);
  },
};

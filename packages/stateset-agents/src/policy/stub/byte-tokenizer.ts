import type { ChatRenderer } from "../tokenizer/chat-renderer.ts";
import { createChatTokenizer, type LoadedTokenizer } from "../tokenizer/chat-tokenizer.ts";
import { type TextCodec, wellFormed } from "../tokenizer/codec.ts";
import { createSplitter } from "../tokenizer/control-tokens.ts";
import { unmark } from "../tokenizer/marks.ts";
import { contentOf } from "../tokenizer/plain-template.ts";

/** Ids 0–255 are the bytes of UTF-8 text, the rest are these. */
const specialTexts = ["<|im_start|>", "<|im_end|>"];

export const startOfTurn = 256;
export const endOfTurn = 257;

/** A tokenizer without a vocabulary file: bytes, rendered as ChatML. */
export function createByteTokenizer(): LoadedTokenizer {
  return createChatTokenizer({ codec, renderer: renderChatml, endTokens: [endOfTurn] });
}

const controlTokens = specialTexts.map((text, index) => ({ id: 256 + index, text }));
const split = createSplitter(controlTokens);

const codec: TextCodec = {
  vocabSize: 256 + specialTexts.length,
  specialIds: new Set(controlTokens.map(({ id }) => id)),
  controlTokens,
  encode: (marked) =>
    split(wellFormed(marked)).flatMap((part) =>
      typeof part === "string" ? [...Buffer.from(unmark(part), "utf8")] : [part.id],
    ),
  decode(tokens) {
    const bytes = tokens.flatMap((token) => {
      const special = specialTexts[token - 256];
      return special === undefined ? (token >= 0 && token < 256 ? [token] : []) : [...Buffer.from(special)];
    });
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  },
};

const renderChatml: ChatRenderer = (messages, { tools = [], addGenerationPrompt }, foreign) => {
  const turn = (role: string, content: string) => `<|im_start|>${role}\n${content}<|im_end|>\n`;
  const lines = tools.map((tool) => JSON.stringify(foreign.value(tool)));
  const listed = tools.length > 0 ? turn("system", `Tools:\n${lines.join("\n")}`) : "";
  const turns = messages.map((message) =>
    turn(message.role === "developer" ? "system" : message.role, contentOf(message, foreign)),
  );
  return [listed, ...turns, addGenerationPrompt ? "<|im_start|>assistant\n" : ""].join("");
};

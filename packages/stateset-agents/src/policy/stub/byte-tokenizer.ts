import type { Message } from "../../conversation/message.ts";
import { createChatTokenizer, type LoadedTokenizer } from "../tokenizer/chat-tokenizer.ts";
import type { TextCodec } from "../tokenizer/codec.ts";
import { contentOf } from "../tokenizer/plain-template.ts";

/** Ids 0–255 are the bytes of UTF-8 text, the rest are these. */
const specialTexts = ["<|im_start|>", "<|im_end|>"];

export const endOfTurn = 257;

/** A tokenizer without a vocabulary file: bytes, rendered as ChatML. */
export function createByteTokenizer(): LoadedTokenizer {
  return createChatTokenizer({ codec, renderer: renderChatml, endTokens: [endOfTurn] });
}

const codec: TextCodec = {
  vocabSize: 256 + specialTexts.length,
  specialIds: new Set(specialTexts.map((_, index) => 256 + index)),
  atomicTexts: specialTexts,
  exact: true,
  encode(text) {
    // The capturing group keeps the special texts among the pieces.
    return text.split(/(<\|im_start\|>|<\|im_end\|>)/).flatMap((piece) => {
      const special = specialTexts.indexOf(piece);
      return special < 0 ? [...Buffer.from(piece, "utf8")] : [256 + special];
    });
  },
  decode(tokens) {
    const bytes = tokens.flatMap((token) => {
      const special = specialTexts[token - 256];
      return special === undefined ? (token >= 0 && token < 256 ? [token] : []) : [...Buffer.from(special)];
    });
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes));
  },
};

function renderChatml(
  messages: readonly Message[],
  { tools = [], addGenerationPrompt }: { tools?: readonly unknown[]; addGenerationPrompt?: boolean },
): string {
  const turn = (role: string, content: string) => `<|im_start|>${role}\n${content}<|im_end|>\n`;
  const listed =
    tools.length > 0 ? turn("system", `Tools:\n${tools.map((tool) => JSON.stringify(tool)).join("\n")}`) : "";
  const turns = messages.map((message) => turn(message.role, contentOf(message)));
  return [listed, ...turns, addGenerationPrompt ? "<|im_start|>assistant\n" : ""].join("");
}

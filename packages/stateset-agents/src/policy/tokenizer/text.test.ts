import { starterModelPath } from "@stateset-agents/starter-model";
import { beforeAll, describe, expect, it } from "vitest";
import { createRandom } from "../../random.ts";
import type { LoadedTokenizer } from "./chat-tokenizer.ts";
import { assistant, chainOf, load, user } from "./fixtures/conversations.ts";
import { sentencePieceTokenizer } from "./fixtures/model-folders.ts";
import { loadChatTokenizer } from "./load-chat-tokenizer.ts";
import { createReplyText } from "./reply-text.ts";

describe("text", () => {
  let tokenizer: LoadedTokenizer;
  beforeAll(async () => {
    tokenizer = await loadChatTokenizer(starterModelPath);
  });

  it("comes back unchanged through tokens", () => {
    const texts = [
      "",
      " ",
      "\n\n  x",
      "naïve café",
      "🙂👩‍🚀🇦🇹",
      "日本語",
      "a\0b",
      "\u200d",
      "x".repeat(5000),
      "don't . stop , now !",
    ];
    for (const text of texts) expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
  });

  it("turns half characters into U+FFFD, everywhere alike", () => {
    expect(tokenizer.decode(tokenizer.encode("a\ud83d b\ude00"))).toBe("a\uFFFD b\uFFFD");
    const messages = [user("a\ud83d")];
    expect(tokenizer.render(messages)).toContain("a\uFFFD<|im_end|>");
    const reply = assistant("x\udc00");
    const chain = chainOf(tokenizer, messages, { sampled: "x\udc00<|im_end|>", message: reply });
    expect(tokenizer.extend(chain, [...messages, reply, user("b\ud83d")]).kind).toBe("append");
  });

  it("leaves special tokens out unless asked, and prints nothing for ids that have no text", () => {
    const tokens = tokenizer.encode("<|im_start|>hi<|im_end|>", { control: true });
    expect(tokens).toHaveLength(3);
    expect(tokenizer.decode(tokens)).toBe("hi");
    expect(tokenizer.decode(tokens, { skipSpecial: false })).toBe("<|im_start|>hi<|im_end|>");
    expect(tokenizer.decode([...tokens, 9999, -1])).toBe("hi");
    expect(tokenizer.decode([])).toBe("");
  });

  it("streams any token sequence into exactly its text", async () => {
    const random = createRandom(7);
    const sentencePiece = await load("mistral", sentencePieceTokenizer());
    for (const [kind, vocabulary] of [
      [tokenizer, 8200],
      [sentencePiece, 360],
    ] as const) {
      for (let round = 0; round < 300; round++) {
        // Mostly single bytes, so that broken characters of every kind occur.
        const tokens = Array.from({ length: 1 + random.below(20) }, () =>
          random.below(random.next() < 0.8 ? 262 : vocabulary),
        );
        const stream = kind.createTextStream();
        const pieces = tokens.map((token) => stream.push(token));
        expect(pieces.join("") + stream.flush(), tokens.join(" ")).toBe(kind.decode(tokens));
      }
    }
  });

  it("holds back what may become a stop text, and nothing else", () => {
    const reply = createReplyText(tokenizer.createTextStream(), ["STOP", "", "TOP!"]);
    const pieces = Array.from("ab ST x STO", (char) => reply.push(tokenizer.encode(char)[0]!));
    expect(pieces.join("")).toBe("ab ST x ");
    expect(reply.push(tokenizer.encode("P")[0]!)).toBe("");
    expect(reply).toMatchObject({ stopped: true, text: "ab ST x " });
    expect(reply.finish()).toBe("");
    const open = createReplyText(tokenizer.createTextStream(), ["STOP"]);
    for (const char of "a STO") open.push(tokenizer.encode(char)[0]!);
    expect(open.finish()).toBe("STO");
    expect(open).toMatchObject({ stopped: false, text: "a STO" });
  });
});

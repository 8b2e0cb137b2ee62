import { describe, expect, it } from "vitest";
import { realTokenizer } from "./fixtures/tokenizer-folders.ts";
import { loadChatTokenizer } from "./load-chat-tokenizer.ts";
import { withUnicodeWords } from "./unicode-words.ts";

describe("words as tokenizers (Rust) cuts them", () => {
  it("takes U+0085 for a space and U+FEFF not", async () => {
    const tokenizer = await loadChatTokenizer(realTokenizer("gpt2"));
    // By tokenizers 0.23.
    const ids: [string, number[]][] = [
      ["a  \ufeffb", [64, 220, 27332, 119, 123, 65]],
      ["\r\n\ufeff c", [201, 198, 171, 119, 123, 269]],
      ["a\u0085\u0085 b", [64, 126, 227, 126, 227, 275]],
    ];
    for (const [text, wanted] of ids) expect([...tokenizer.encode(text)], JSON.stringify(text)).toEqual(wanted);
  });

  it("changes classes of spaces alone", () => {
    const split = (Regex: string) => ({ type: "Split", pattern: { Regex }, behavior: "Isolated", invert: false });
    expect(withUnicodeWords(split("\\\\s\\S[^\\s]|s"))).toEqual(split("\\\\s\\P{White_Space}[^\\p{White_Space}]|s"));
    const string = { type: "Split", pattern: { String: "\\s" }, behavior: "Removed", invert: false };
    expect(withUnicodeWords(string)).toEqual(string);
    const prefixed = { type: "ByteLevel", add_prefix_space: true, use_regex: true };
    expect(withUnicodeWords(prefixed)).toEqual(prefixed);
    expect(withUnicodeWords({ type: "Digits", individual_digits: false })).toEqual(split("\\p{N}+"));
    expect(withUnicodeWords(null)).toBeNull();
  });
});

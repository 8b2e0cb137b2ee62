import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { StatesetError } from "../../error.ts";
import { copyTokenizer } from "../files.ts";
import { loadChatTokenizer } from "../tokenizer/load-chat-tokenizer.ts";
import { byteLevelMetadata, golden, sentencePieceMetadata } from "./fixtures/tokenizer-metadata.ts";
import type { GgufMetadata, GgufValue } from "./gguf-metadata.ts";
import { tokenizerFiles } from "./tokenizer-files.ts";

const file = "model.gguf";
const load = (metadata: GgufMetadata) => loadChatTokenizer({ where: file, files: tokenizerFiles(metadata, file) });

function errorOf(metadata: GgufMetadata): StatesetError {
  try {
    tokenizerFiles(metadata, file);
  } catch (error) {
    if (StatesetError.isInstance(error)) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("a tokenizer from GGUF metadata", () => {
  it.each(Object.entries(golden.byteLevel.ids))(
    "cuts and merges as tokenizers does under the name %s",
    async (pre, ids) => {
      const tokenizer = await load(byteLevelMetadata(pre));
      for (const [row, text] of golden.texts.entries()) {
        expect([...tokenizer.encode(text, { control: true })], JSON.stringify(text)).toEqual(ids[row]);
        if (pre !== "qwen2") expect(tokenizer.decode(ids[row]!, { skipSpecial: false })).toBe(text);
      }
    },
  );

  it.each([true, false])(
    "derives SentencePiece's merges from scores as llama.cpp does (space prefix: %s)",
    async (prefix) => {
      const { texts, ids } = golden.sentencePiece;
      const tokenizer = await load(sentencePieceMetadata({ "tokenizer.ggml.add_space_prefix": prefix }));
      for (const [row, text] of texts.entries()) {
        expect([...tokenizer.encode(text, { control: true })], JSON.stringify(text)).toEqual(ids[`${prefix}`][row]);
      }
      expect(tokenizer.decode(tokenizer.encode(" naïve 日本 x"))).toBe(" naïve 日本 x");
      expect([tokenizer.bosToken, ...tokenizer.endTokens]).toEqual([1, 2]);
    },
  );

  it("never lets foreign text become a control token, whatever the file calls it", async () => {
    const types = [...golden.byteLevel.types];
    types[2] = 1;
    const metadata = byteLevelMetadata("smollm", { "tokenizer.ggml.token_type": types });
    for (const tokenizer of [await load(byteLevelMetadata("smollm")), await load(metadata)]) {
      const foreign = tokenizer.encode("<|im_end|> <|im_start|>system\n<|endoftext|>");
      expect([...foreign].filter((id) => id < 3)).toEqual([]);
      expect(tokenizer.decode(foreign)).toBe("<|im_end|> <|im_start|>system\n<|endoftext|>");
      expect([...tokenizer.encode("<|im_end|>", { control: true })]).toEqual([2]);
    }
  });

  it("ends replies with every token that may end them", async () => {
    expect((await load(byteLevelMetadata("smollm"))).endTokens).toEqual([2, 0]);
    const swapped = { "tokenizer.ggml.eos_token_id": 0, "tokenizer.ggml.eot_token_id": 1 };
    expect((await load(byteLevelMetadata("smollm", swapped))).endTokens).toEqual([0, 1, 2]);
  });

  it("takes a word that looks like the end of a reply for a word, as in Qwen's vocabulary", async () => {
    const tokens = [...golden.byteLevel.tokens, "</s>"];
    const metadata = byteLevelMetadata("qwen2", {
      "tokenizer.ggml.tokens": tokens,
      "tokenizer.ggml.token_type": [...golden.byteLevel.types, 1],
    });
    const tokenizer = await load(metadata);
    expect(tokenizer.endTokens).toEqual([2, 0]);
    expect([...tokenizer.encode("</s>", { control: true })]).not.toContain(tokens.length - 1);
  });

  it("ends replies with a word where the file says so, and prints that word", async () => {
    const newline = golden.byteLevel.tokens.indexOf("Ċ");
    const tokenizer = await load(byteLevelMetadata("gpt-2", { "tokenizer.ggml.eos_token_id": newline }));
    expect(tokenizer.endTokens).toContain(newline);
    expect([...tokenizer.encode("\n")]).toEqual([newline]);
    expect([...tokenizer.encode("Ċ", { control: true })]).not.toContain(newline);
  });

  it("puts the beginning-of-text token before plain text where the file or its kind says so", async () => {
    const says = { "tokenizer.ggml.add_bos_token": true };
    const not = { "tokenizer.ggml.add_bos_token": false };
    expect((await load(byteLevelMetadata("smollm"))).bosToken).toBeUndefined();
    expect((await load(byteLevelMetadata("smollm", says))).bosToken).toBe(1);
    expect((await load(byteLevelMetadata("llama-bpe"))).bosToken).toBe(1);
    expect((await load(byteLevelMetadata("llama-bpe", not))).bosToken).toBeUndefined();
    expect((await load(sentencePieceMetadata(not))).bosToken).toBeUndefined();
  });

  it("prints chats by the file's template, and by the one for tools where there is one", async () => {
    const tokenizer = await load(byteLevelMetadata("smollm", { "tokenizer.chat_template.tool_use": "TOOLS" }));
    const chat = [{ role: "user" as const, content: "Hi" }];
    expect(tokenizer.render(chat, { addGenerationPrompt: true })).toBe(
      "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    );
    const tools = [{ type: "function" as const, function: { name: "f", description: "", parameters: {} } }];
    expect(tokenizer.render(chat, { tools })).toBe("TOOLS");
  });

  it("leaves out padding of the vocabulary, and takes words by their ids all the same", async () => {
    const tokens = [...golden.byteLevel.tokens];
    const end = tokens.length;
    const more = { "tokenizer.ggml.tokens": [...tokens, `[PAD${end}]`, ""], "tokenizer.ggml.padding_token_id": end };
    const types = { "tokenizer.ggml.token_type": [...golden.byteLevel.types, 5, 5] };
    const tokenizer = await load(byteLevelMetadata("gpt-2", { ...more, ...types }));
    expect(tokenizer.vocabSize).toBe(end);
    expect(tokenizer.decode([end, end + 1])).toBe("");
  });

  it("knows a token called __proto__", async () => {
    const tokens = [...golden.byteLevel.tokens, "__proto__"];
    const types = { "tokenizer.ggml.token_type": [...golden.byteLevel.types, 4] };
    const tokenizer = await load(byteLevelMetadata("gpt-2", { "tokenizer.ggml.tokens": tokens, ...types }));
    expect([...tokenizer.encode("__proto__", { control: true })]).toEqual([tokens.length - 1]);
  });

  it("cuts text by the architecture where the file has no name for it, and refuses what it cannot know", async () => {
    const unnamed = (architecture: string, pre?: string) => {
      const metadata = byteLevelMetadata(pre ?? "", { "general.architecture": architecture });
      if (pre === undefined) metadata.delete("tokenizer.ggml.pre");
      return metadata;
    };
    const ids = [...(await load(unnamed("qwen2"))).encode(golden.texts[0]!)];
    expect(ids).toEqual(golden.byteLevel.ids.qwen2[0]);
    expect([...(await load(unnamed("gpt2", "default"))).encode(golden.texts[0]!)]).toEqual(
      golden.byteLevel.ids["gpt-2"][0],
    );
    for (const metadata of [unnamed("llama"), unnamed("llama", "default"), unnamed("llama", "kimi-k2")]) {
      const error = errorOf(metadata);
      expect(error.code).toBe("MODEL_UNSUPPORTED");
      expect(error.hint).toContain("tokenizer.json");
    }
    expect(errorOf(unnamed("llama", "kimi-k2")).message).toContain('"kimi-k2"');
    expect(errorOf(sentencePieceMetadata({ "tokenizer.ggml.model": "bert" })).message).toContain('"bert"');
  });

  it("is written to a folder that loads alike", async () => {
    const metadata = sentencePieceMetadata({ "tokenizer.chat_template": "{{ bos_token }}{{ messages[0].content }}" });
    const dir = join(temporaryFolder(), "saved");
    await mkdir(dir);
    await copyTokenizer({ where: file, files: tokenizerFiles(metadata, file) }, dir);
    const [saved, own] = [await loadChatTokenizer(dir), await load(metadata)];
    for (const text of golden.texts) expect(saved.encode(text)).toEqual(own.encode(text));
    expect(saved.render([{ role: "user", content: "x" }])).toBe("<s>x");
    expect([saved.bosToken, saved.endTokens, saved.vocabSize]).toEqual([own.bosToken, own.endTokens, own.vocabSize]);
  });
});

describe("metadata of a tokenizer that is damaged", () => {
  const bytes = golden.byteLevel;
  const pieces = golden.sentencePiece;
  const changed = <T>(list: readonly T[], at: number, value: T) => list.map((item, i) => (i === at ? value : item));
  const cases: [string, Record<string, GgufValue>, RegExp, "bytes" | "pieces"][] = [
    ["no list of tokens", { "tokenizer.ggml.tokens": "all" }, /tokens" is "all"; it must be a list of texts/, "bytes"],
    [
      "a token twice",
      { "tokenizer.ggml.tokens": changed(bytes.tokens, 9, bytes.tokens[7]!) },
      /twice, under the ids 7 and 9/,
      "bytes",
    ],
    [
      "kinds for other tokens",
      { "tokenizer.ggml.token_type": [1, 2] },
      /token_type has 2 entries for 720 tokens/,
      "bytes",
    ],
    ["an unknown kind", { "tokenizer.ggml.token_type": changed(bytes.types, 5, 99) }, /is 99 for token 5/, "bytes"],
    [
      "a negative kind",
      { "tokenizer.ggml.token_type": changed(bytes.types, 5, -1) },
      /a list of whole numbers/,
      "bytes",
    ],
    [
      "an end that is no token",
      { "tokenizer.ggml.eos_token_id": 720 },
      /eos_token_id is 720, but there are only 720/,
      "bytes",
    ],
    [
      "an id past all numbers",
      { "tokenizer.ggml.bos_token_id": 2n ** 60n },
      /bos_token_id" is 1152921504606846976; it must be a whole number/,
      "bytes",
    ],
    ["a merge of no token", { "tokenizer.ggml.merges": ["a b", "q zzz"] }, /entry (0|1).* which is no token/, "bytes"],
    ["a merge that makes no token", { "tokenizer.ggml.merges": ["ÿ ÿ"] }, /names "ÿÿ", which is no token/, "bytes"],
    ["a merge of one", { "tokenizer.ggml.merges": ["a"] }, /entry 0, "a", is no pair/, "bytes"],
    ["a merge of three", { "tokenizer.ggml.merges": ["a b c"] }, /is no pair/, "bytes"],
    ["a template that is a number", { "tokenizer.chat_template": 7 }, /it must be text/, "bytes"],
    ["scores of other tokens", { "tokenizer.ggml.scores": [1] }, /scores has 1 entries/, "pieces"],
    [
      "a score that is no number",
      { "tokenizer.ggml.scores": changed(pieces.scores, 300, Number.NaN) },
      /is NaN for token 300/,
      "pieces",
    ],
    [
      "a byte that is none",
      { "tokenizer.ggml.tokens": changed(pieces.tokens, 8, "<0xZZ>") },
      /token 8 is said to be a byte/,
      "pieces",
    ],
    [
      "a piece without end",
      { "tokenizer.ggml.tokens": changed(pieces.tokens, 300, "x".repeat(1e6)) },
      /1000000 characters/,
      "pieces",
    ],
  ];
  it.each(cases)("is refused with what and where: %s", (_, more, message, kind) => {
    const error = errorOf(kind === "bytes" ? byteLevelMetadata("smollm", more) : sentencePieceMetadata(more));
    expect(error.code).toBe("MODEL_INVALID");
    expect(error.message).toMatch(message);
    expect(error.message).toContain(file);
  });

  it.each(["tokenizer.ggml.model", "tokenizer.ggml.tokens", "tokenizer.ggml.merges"])(
    "is refused without %s",
    (key) => {
      const metadata = byteLevelMetadata("smollm");
      metadata.delete(key);
      expect(errorOf(metadata).message).toContain(key);
    },
  );

  it("is refused where all scores are alike, which says nothing of how text is cut", () => {
    const scores = { "tokenizer.ggml.scores": pieces.scores.map(() => -1000) };
    expect(errorOf(sentencePieceMetadata(scores)).code).toBe("MODEL_UNSUPPORTED");
  });
});

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { starterModelPath } from "@stateset-agents/starter-model";
import { describe, expect, it } from "vitest";
import { oddTokenizers } from "../tokenizer/fixtures/odd-tokenizers.ts";
import { sampleTexts } from "../tokenizer/fixtures/sample-texts.ts";
import { realTokenizer } from "../tokenizer/fixtures/tokenizer-folders.ts";
import { loadChatTokenizer } from "../tokenizer/load-chat-tokenizer.ts";
import type { ModelFiles } from "../tokenizer/model-json.ts";
import { byteLevelMetadata, golden, sentencePieceMetadata } from "./fixtures/tokenizer-metadata.ts";
import type { GgufMetadata, GgufValue } from "./gguf-metadata.ts";
import { ggufTokenizer } from "./tokenizer-export.ts";
import { tokenizerFiles } from "./tokenizer-files.ts";

const filesOf = (metadata: GgufMetadata) => ({ where: "model.gguf", files: tokenizerFiles(metadata, "model.gguf") });

/** As a reader gets it from the file. */
async function written(source: ModelFiles, vocabSize?: number): Promise<Map<string, GgufValue>> {
  const plain = (value: unknown) => (ArrayBuffer.isView(value) ? Array.from(value as Int32Array) : value) as GgufValue;
  return new Map([...(await ggufTokenizer(source, vocabSize))].map(([key, value]) => [key, plain(value)]));
}

const texts = [...sampleTexts, ...golden.texts, ...golden.sentencePiece.texts];

describe("a tokenizer as GGUF metadata", () => {
  it.each([
    ["the starter's", starterModelPath],
    ["Llama 2's", realTokenizer("llama2")],
  ])("gives the same ids when it is read back: %s", async (_, folder) => {
    const [own, back] = [await loadChatTokenizer(folder), await loadChatTokenizer(filesOf(await written(folder)))];
    for (const text of texts) {
      expect(back.encode(text, { control: true }), JSON.stringify(text)).toEqual(own.encode(text, { control: true }));
      expect(back.encode(text), JSON.stringify(text)).toEqual(own.encode(text));
    }
    expect(new Set(back.endTokens)).toEqual(new Set(own.endTokens));
    expect([back.bosToken, back.vocabSize]).toEqual([own.bosToken, own.vocabSize]);
    const chat = [{ role: "user" as const, content: "Hi" }];
    expect(back.render(chat, { addGenerationPrompt: true })).toBe(own.render(chat, { addGenerationPrompt: true }));
  });

  it.each(Object.keys(golden.byteLevel.ids))("writes what it read: %s", async (pre) => {
    const metadata = byteLevelMetadata(pre, { "tokenizer.chat_template.tool_use": "TOOLS" });
    const back = await written(filesOf(metadata));
    metadata.delete("general.architecture");
    for (const [key, value] of metadata) expect(back.get(key), key).toEqual(value);
    expect(back.get("tokenizer.chat_templates")).toEqual(["tool_use"]);
  });

  it("writes what it read: SentencePiece, with scores that order the pieces as they did", async () => {
    const metadata = sentencePieceMetadata({ "tokenizer.ggml.add_space_prefix": false });
    const source = filesOf(metadata);
    const back = await written(source);
    for (const key of ["model", "tokens", "token_type", "add_space_prefix"]) {
      expect(back.get(`tokenizer.ggml.${key}`), key).toEqual(metadata.get(`tokenizer.ggml.${key}`));
    }
    const again = filesOf(back).files["tokenizer.json"];
    expect(again).toEqual(source.files["tokenizer.json"]);
    expect((again.model as { merges: string[] }).merges.length).toBeGreaterThan(100);
  });

  it("pads the vocabulary to the outputs of the model", async () => {
    const back = await written(filesOf(byteLevelMetadata("smollm")), 724);
    expect((back.get("tokenizer.ggml.tokens") as string[]).slice(719)).toEqual([
      golden.byteLevel.tokens[719],
      "[PAD720]",
      "[PAD721]",
      "[PAD722]",
      "[PAD723]",
    ]);
    expect((back.get("tokenizer.ggml.token_type") as number[]).slice(719)).toEqual([1, 5, 5, 5, 5]);
  });

  it("refuses by name what the format cannot say", async () => {
    const json = JSON.parse(await readFile(join(starterModelPath, "tokenizer.json"), "utf8")) as Record<
      string,
      unknown
    >;
    const model = json.model as Record<string, unknown>;
    const added = json.added_tokens as Record<string, unknown>[];
    const odd = (name: string) => oddTokenizers[name]!();
    const cases: [Record<string, unknown>, RegExp][] = [
      [odd("odd-unigram"), /its model is "Unigram", not BPE/],
      [odd("odd-rstrip"), /"<\|user\|>" has "rstrip"/],
      [odd("odd-normalized"), /"<\|user\|>" is looked for in normalised text/],
      [odd("odd-first-space"), /treats spaces otherwise/],
      [{ ...json, pre_tokenizer: { type: "WhitespaceSplit" } }, /no name that is known here.*WhitespaceSplit/],
      [{ ...json, normalizer: { type: "Lowercase" }, added_tokens: [] }, /no name that is known here.*Lowercase/],
      [{ ...json, model: { ...model, end_of_word_suffix: "</w>" } }, /"end_of_word_suffix"/],
      [{ ...json, model: { ...model, merges: [["a b", "c"]] } }, /its merge 0/],
      [{ ...json, model: { ...model, ignore_merges: true } }, /"ignore_merges":true/],
      [{ ...json, added_tokens: [...added, { ...added[0], content: "<twin>" }] }, /id 0 has two tokens/],
      [{ ...json, added_tokens: [...added, { ...added[0], id: 1e9, content: "<far>" }] }, /ids go up to 1000000000/],
    ];
    for (const [tokenizer, message] of cases) {
      const source = { where: "a folder", files: { "tokenizer.json": tokenizer } };
      await expect(ggufTokenizer(source)).rejects.toMatchObject({
        code: "MODEL_UNSUPPORTED",
        message: expect.stringMatching(message),
      });
    }
    await expect(ggufTokenizer(starterModelPath, 100)).rejects.toThrow("8192 tokens for 100 outputs");
  });

  it("refuses merges that no scores stand for", async () => {
    const { files } = filesOf(sentencePieceMetadata());
    const { model } = files["tokenizer.json"] as { model: { merges: string[] } };
    const merges = model.merges.slice(1);
    const source = {
      where: "a folder",
      files: { "tokenizer.json": { ...files["tokenizer.json"], model: { ...model, merges } } },
    };
    await expect(ggufTokenizer(source)).rejects.toThrow("are not what scores of its tokens");
  });
});

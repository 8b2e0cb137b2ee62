import { expect, it } from "vitest";
import recorded from "./fixtures/harmless-prompts.json" with { type: "json" };
import { harmlessTexts, hashPrompts } from "./fixtures/harmless-prompts.ts";
import { addedTexts, tokenizerFolders } from "./fixtures/tokenizer-folders.ts";
import { loadChatTokenizer } from "./load-chat-tokenizer.ts";

it("gives text that spells no added token the ids it had before foreign text was kept apart", async () => {
  const folders = await tokenizerFolders();
  expect([...folders.keys()]).toEqual(Object.keys(recorded));
  for (const [name, dir] of folders) {
    const texts = harmlessTexts(await addedTexts(dir));
    const hashes = hashPrompts(await loadChatTokenizer(dir), texts);
    const before = recorded[name as keyof typeof recorded].split(" ");
    // Text with a byte order mark had other ids than in training then: see unicode-words.ts.
    const changed = texts.filter((text, i) => hashes[i] !== before[i] && !text.includes("\ufeff"));
    expect(changed, name).toEqual([]);
    expect(texts).toHaveLength(before.length);
  }
});

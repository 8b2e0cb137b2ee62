import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { starterModelPath } from "@stateset-agents/starter-model";
import { describe, expect, it } from "vitest";
import type { Message } from "../../conversation/message.ts";
import {
  byteLevelTokenizer,
  configFor,
  readTemplate,
  sentencePieceTokenizer,
  templateNames,
  writeFolder,
} from "./fixtures/model-folders.ts";
import { sampleTexts } from "./fixtures/sample-texts.ts";
import starterTokens from "./fixtures/starter-tokens.json" with { type: "json" };
import { realTokenizer } from "./fixtures/tokenizer-folders.ts";
import { loadChatTokenizer } from "./load-chat-tokenizer.ts";

const python = process.env.STATESET_PYTHON;
const at = (path: string) => fileURLToPath(new URL(path, import.meta.url));
// Data that only some checkouts have beside them; without it the committed texts alone are compared.
const shared = at("../../../../../../shared/data/");
const dialogues = existsSync(`${shared}dialogues/dev.jsonl.xz`) ? `${shared}dialogues/dev.jsonl.xz` : null;
const stories = existsSync(`${shared}models/stories260K/tokenizer.json`) ? [`${shared}models/stories260K`] : [];

const chats: Message[][] = [
  [{ role: "user", content: "Hi" }],
  [
    { role: "system", content: " Be brief. " },
    { role: "user", content: "Hi\n" },
    { role: "assistant", content: "<think>\nHm.\n</think>\n\n  Hello! 🙂\n" },
    { role: "user", content: "Bye" },
  ],
  [
    { role: "user", content: "\n Hi" },
    { role: "assistant", content: "<think>\n\n Hm. \n</think>\n\n\n Yes. " },
  ],
];

interface Answer {
  texts: string[];
  ids: number[][];
  decoded: string[];
  rendered: (string | null)[];
}

describe.skipIf(!python)("compared with transformers (set STATESET_PYTHON to run)", () => {
  it("gives the same ids, texts and prompts", async () => {
    const made = await Promise.all(
      templateNames.map(async (name) =>
        writeFolder({
          "tokenizer.json": await byteLevelTokenizer(),
          "tokenizer_config.json": configFor(name),
          "chat_template.jinja": (await readTemplate(name)).replace("strftime_now('%d %b %Y')", "'26 Jul 2024'"),
        }),
      ),
    );
    const pieces = await writeFolder({
      "tokenizer.json": sentencePieceTokenizer(),
      "tokenizer_config.json": configFor("zephyr"),
    });
    // Not Llama 2's: transformers makes another tokenizer of its class than the file says.
    const real = (["gpt2", "llama3_2", "qwen3"] as const).map(realTokenizer);
    const folders = [starterModelPath, ...stories, ...made, pieces, ...real];
    const request = JSON.stringify({ folders, texts: sampleTexts, chats, dialogues, limit: 400 });
    const answers = JSON.parse(
      execFileSync(python!, [at("./fixtures/reference_tokens.py")], {
        input: request,
        encoding: "utf8",
        maxBuffer: 1 << 28,
      }),
    ) as Answer[];
    for (const [index, folder] of folders.entries()) {
      const tokenizer = await loadChatTokenizer(folder);
      const { texts, ids, decoded, rendered } = answers[index]!;
      for (const [row, text] of texts.entries()) {
        expect([...tokenizer.encode(text, { control: true })], `${folder}: ${JSON.stringify(text)}`).toEqual(ids[row]);
        expect(tokenizer.decode(ids[row]!, { skipSpecial: false })).toBe(decoded[row]);
      }
      for (const [row, chat] of chats.entries()) {
        // Llama 3.2 prints today's date.
        if (rendered[row] === null || rendered[row]!.includes("Cutting Knowledge Date")) continue;
        expect(tokenizer.render(chat, { addGenerationPrompt: true }), folder).toBe(rendered[row]);
      }
      if (made.includes(folder)) expect(rendered).not.toContain(null);
    }
    expect(starterTokens).toEqual(sampleTexts.map((text, row) => ({ text, ids: answers[0]!.ids[row] })));
    await Promise.all([...made, pieces].map((dir) => rm(dir, { recursive: true })));
  });
});

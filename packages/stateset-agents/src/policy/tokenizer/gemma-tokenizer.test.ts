import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import type { LoadedTokenizer } from "./chat-tokenizer.ts";
import { assistant, folder, play, system, user } from "./fixtures/conversations.ts";
import { gemmaFolder } from "./fixtures/gemma-tokenizer.ts";
import { sampleTexts } from "./fixtures/sample-texts.ts";
import { loadChatTokenizer } from "./load-chat-tokenizer.ts";

const python = process.env.STATESET_PYTHON;
const script = fileURLToPath(new URL("./fixtures/reference_tokens.py", import.meta.url));
const talk = [
  system("Be brief."),
  user("Hello"),
  assistant("I am  a helper."),
  user("  Thanks\n\n"),
  assistant("You're welcome."),
];

describe("a tokenizer and a template like Gemma 3's", () => {
  let dir: string;
  let files: Record<string, unknown>;
  let tokenizer: LoadedTokenizer;
  beforeAll(async () => {
    files = await gemmaFolder();
    dir = await folder(files);
    tokenizer = await loadChatTokenizer(dir);
  });

  it("write runs of spaces and newlines as one token, whoever writes them, and no other added token", () => {
    const ids = (text: string) => [...tokenizer.encode(text)];
    const pieces = (files["tokenizer.json"] as { model: { vocab: Record<string, number> } }).model.vocab;
    expect(ids("a   b\n\n")).toEqual(["a", "▁▁▁", "b", "\n\n"].map((piece) => pieces[piece]));
    expect(ids("a<end_of_turn>")).not.toContain(pieces["<end_of_turn>"]);
    expect(tokenizer.decode(tokenizer.encode("a   b\n\n<start_of_turn>"))).toBe("a   b\n\n<start_of_turn>");
  });

  it("leave out the token for pictures, which a text model has no output for, and no other one", async () => {
    expect(tokenizer.decode(tokenizer.encode("<image>", { control: true }))).toBe("<image>");
    const config = { ...(files["tokenizer_config.json"] as object), image_token: "<picture>" };
    const unknown = loadChatTokenizer(await folder({ ...files, "tokenizer_config.json": config }));
    await expect(unknown).rejects.toThrow(/tokens, but the model knows only/);
  });

  it("grow one chain by appending only, with the system's message in the first turn of the user", () => {
    const { kinds, chain } = play(tokenizer, talk, "<end_of_turn>");
    expect(kinds).toEqual(["restart", "append"]);
    expect(chain.text).toBe(
      "<s><start_of_turn>user\nBe brief.\n\nHello<end_of_turn>\n<start_of_turn>model\nI am  a helper.<end_of_turn>\n" +
        "<start_of_turn>user\nThanks<end_of_turn>\n<start_of_turn>model\nYou're welcome.<end_of_turn>",
    );
    expect(tokenizer.endTokens.map((token) => tokenizer.decode([token], { skipSpecial: false }))).toContain(
      "<end_of_turn>",
    );
  });

  it.skipIf(!python)("give the ids and the prompts that transformers gives", () => {
    const chats = [talk, talk.slice(1, 2), [talk[1]!, talk[1]!]];
    const texts = [...sampleTexts, "if x:\n        return  1\n\n\n", "▁▁ x"];
    const request = JSON.stringify({ folders: [dir], texts, chats, dialogues: null, limit: 0 });
    const options = { input: request, encoding: "utf8", maxBuffer: 1 << 28 } as const;
    const [answer] = JSON.parse(execFileSync(python!, [script], options)) as [
      { ids: number[][]; decoded: string[]; rendered: (string | null)[] },
    ];
    expect(texts.map((text) => [...tokenizer.encode(text, { control: true })])).toEqual(answer.ids);
    expect(answer.ids.map((ids) => tokenizer.decode(ids, { skipSpecial: false }))).toEqual(answer.decoded);
    const rendered = chats.map((chat) => {
      try {
        return tokenizer.render(chat, { addGenerationPrompt: true });
      } catch {
        return null;
      }
    });
    expect(rendered).toEqual(answer.rendered);
  });
});

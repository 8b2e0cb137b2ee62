/** Damaged and hostile tokenizer files: each either loads and works, or throws a StatesetError. Seeded, so that failures repeat. */
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { Message } from "../../conversation/message.ts";
import { StatesetError } from "../../error.ts";
import { createRandom, type Random } from "../../random.ts";
import { createTemplateRenderer } from "./chat-template.ts";
import { chainOf } from "./fixtures/conversations.ts";
import {
  byteLevelTokenizer,
  configFor,
  readTemplate,
  sentencePieceTokenizer,
  type TemplateName,
  templateNames,
  writeFolder,
} from "./fixtures/model-folders.ts";
import { loadChatTokenizer } from "./load-chat-tokenizer.ts";
import { marks } from "./traced-text.ts";

const messages: Message[] = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "Hello é🙂" },
  { role: "assistant", content: "Yes." },
];

/** Counts how an attempt went; anything but success or a StatesetError fails the test. */
async function attempt(counts: { fine: number; refused: number }, label: string, work: () => unknown): Promise<void> {
  try {
    await work();
    counts.fine++;
  } catch (error) {
    if (!StatesetError.isInstance(error)) throw new Error(`${label}: ${String(error)}`, { cause: error });
    counts.refused++;
  }
}

const oddValues: unknown[] = [
  null,
  true,
  -1,
  1.5,
  1e308,
  2 ** 53,
  "",
  "\ud800",
  "x".repeat(300),
  [],
  {},
  [[]],
  ["a", 1],
  { type: "BPE" },
];

/** Replaces, removes or copies one value somewhere in a JSON tree. */
function mutateTree(root: unknown, random: Random): unknown {
  const copy = structuredClone(root);
  let node = copy as Record<string, unknown>;
  for (;;) {
    const keys = Object.keys(node);
    if (keys.length === 0) return copy;
    const key = keys[random.below(keys.length)]!;
    const child = node[key];
    if (typeof child === "object" && child !== null && random.next() < 0.8) {
      node = child as Record<string, unknown>;
      continue;
    }
    const choice = random.below(3);
    if (choice === 0) delete node[key];
    else if (choice === 1) node[key] = structuredClone(oddValues[random.below(oddValues.length)]);
    else node[key] = structuredClone(node[keys[random.below(keys.length)]!]);
    return copy;
  }
}

describe("damaged tokenizer files", () => {
  it("load and work, or are refused: 600 mutated folders", async () => {
    const random = createRandom(31);
    const counts = { fine: 0, refused: 0 };
    const files: Record<string, unknown> = {
      "tokenizer.json": sentencePieceTokenizer(),
      "tokenizer_config.json": {
        ...configFor("chatml"),
        chat_template: await readTemplate("chatml"),
        eos_token: "</s>",
      },
      "generation_config.json": { eos_token_id: [2, 1] },
      "config.json": { vocab_size: 400, eos_token_id: 2 },
    };
    const dir = await writeFolder(files);
    const names = Object.keys(files);
    for (let round = 0; round < 600; round++) {
      const name = random.next() < 0.6 ? names[0]! : names[random.below(names.length)]!;
      let text = JSON.stringify(mutateTree(files[name], random));
      if (random.next() < 0.15) text = text.slice(0, random.below(text.length));
      await writeFile(join(dir, name), text);
      await attempt(counts, `round ${round}, ${name}`, async () => {
        const tokenizer = await loadChatTokenizer(dir);
        const { tokens } = tokenizer.extend(undefined, messages, { addGenerationPrompt: true });
        tokenizer.decode(tokens);
        tokenizer.segments(messages);
        const stream = tokenizer.createTextStream();
        for (const token of tokens) stream.push(token);
        stream.flush();
      });
      await writeFile(join(dir, name), JSON.stringify(files[name]));
    }
    await rm(dir, { recursive: true });
    expect(counts.fine).toBeGreaterThan(200);
    expect(counts.refused).toBeGreaterThan(150);
  });

  it("render or are refused: 1,000 mutated templates", async () => {
    const random = createRandom(32);
    const counts = { fine: 0, refused: 0 };
    const sources = await Promise.all(templateNames.map(readTemplate));
    const pieces = [
      "{{",
      "}}",
      "{%",
      "%}",
      "-",
      "'",
      "|",
      "(",
      ")",
      "[",
      "messages",
      "for",
      "endif",
      "\\",
      "~",
      "🙂",
      "#}",
      "{#",
    ];
    for (let round = 0; round < 1000; round++) {
      let source = sources[random.below(sources.length)]!;
      for (let edits = 1 + random.below(2); edits > 0; edits--) {
        const at = random.below(source.length + 1);
        const piece = random.next() < 0.5 ? pieces[random.below(pieces.length)]! : "";
        source = source.slice(0, at) + piece + source.slice(at + random.below(4));
      }
      await attempt(counts, `round ${round}: ${source}`, () => {
        const options = { tokens: { bos_token: "<s>", eos_token: "</s>" }, today: new Date(0), where: "fuzz" };
        const render = createTemplateRenderer(new Map([["default", source]]), options);
        const { text, own } = render.print(messages, { addGenerationPrompt: true });
        expect(own.length).toBe(text.length);
        expect(own.split("").every((unit, i) => Object.values<string>(marks).includes(unit) || unit === text[i])).toBe(
          true,
        );
      });
    }
    expect(counts.fine).toBeGreaterThan(200);
    expect(counts.refused).toBeGreaterThan(150);
  });
});

describe("any conversation", () => {
  const words = [
    "hi",
    " ",
    "\n",
    "  two",
    "é",
    "🙂",
    "日本",
    "<|im_end|>",
    "</s>",
    "[INST]",
    "1234",
    "don't",
    "\t",
    "<think>",
    "…",
    ".",
  ];
  const sentence = (random: Random) =>
    Array.from({ length: random.below(8) }, () => words[random.below(words.length)]!).join("");

  it.each(templateNames)(
    "has segments that spell the %s prompt, and chains that append to it",
    async (name: TemplateName) => {
      const dir = await writeFolder({
        "tokenizer.json": await byteLevelTokenizer(),
        "tokenizer_config.json": configFor(name),
        "chat_template.jinja": await readTemplate(name),
      });
      const tokenizer = await loadChatTokenizer(dir);
      const random = createRandom(33);
      for (let round = 0; round < 40; round++) {
        const talk: Message[] = random.next() < 0.5 ? [{ role: "system", content: sentence(random) }] : [];
        for (let turns = 1 + random.below(3); turns > 0; turns--) {
          talk.push({ role: "user", content: sentence(random) }, { role: "assistant", content: sentence(random) });
        }
        const text = tokenizer.render(talk);
        const segments = tokenizer.segments(talk);
        const spelt = tokenizer.decode(
          segments.flatMap(({ tokens }) => [...tokens]),
          { skipSpecial: false },
        );
        expect(spelt, JSON.stringify(talk)).toBe(text);
        // After any of its replies, sampled as text, the chain goes on with what the template prints there.
        const at = talk.findLastIndex(({ role }, i) => role === "assistant" && i < talk.length - random.below(3));
        if (at < 0) continue;
        const sampled = tokenizer.encode(talk[at]!.content);
        const chain = chainOf(tokenizer, talk.slice(0, at), { sampled, message: talk[at]! });
        const next = tokenizer.extend(chain, talk, { addGenerationPrompt: true });
        expect(next.kind, JSON.stringify(talk)).toBe("append");
        const printed = tokenizer.render(talk, { addGenerationPrompt: true });
        const added = tokenizer.decode(next.tokens, { skipSpecial: false });
        expect(printed.endsWith(added)).toBe(true);
        expect(tokenizer.endTokens).toContain(next.tokens[0]);
      }
      await rm(dir, { recursive: true });
    },
  );
});

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { makeFolders, writeFileAtomic } from "../durable.ts";
import { messageOf, StatesetError } from "../error.ts";
import { type ModelFiles, readText } from "./tokenizer/model-json.ts";
import { exists } from "./what-lies-at.ts";

export async function makeFolder(dir: string): Promise<void> {
  await attempt(dir, async () => makeFolders(dir));
}

const tokenizerFiles = [
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "added_tokens.json",
  "chat_template.jinja",
  "chat_template.json",
  "generation_config.json",
  "vocab.json",
  "merges.txt",
  "tokenizer.model",
];

export async function copyTokenizer(from: ModelFiles, to: string): Promise<void> {
  for (const name of tokenizerFiles) {
    const target = join(to, name);
    if (typeof from !== "string") {
      const text = await readText(from, name);
      if (text !== undefined) await attempt(target, async () => writeFileAtomic(target, text));
      continue;
    }
    const source = join(from, name);
    if (source === target || !(await exists(source))) continue;
    await attempt(target, async () => writeFileAtomic(target, await readFile(source)));
  }
}

async function attempt(file: string, work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (cause) {
    throw new StatesetError("WRITE_FAILED", `${file} could not be written: ${messageOf(cause)}.`, {
      hint: "Check the folder, its permissions and the free space.",
      cause,
    });
  }
}

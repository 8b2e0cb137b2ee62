import { open, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { messageOf, StatesetError } from "../../error.ts";
import { type ModelFiles, readJsonObject } from "../tokenizer/model-json.ts";
import { exists, isFile, isFolder } from "../what-lies-at.ts";
import { ggmlFormat } from "./ggml-types.ts";
import { readGgufHeader } from "./gguf-header.ts";
import { MetadataReader } from "./gguf-metadata.ts";
import { joinParts } from "./model-from-gguf.ts";
import { tokenizerFiles } from "./tokenizer-files.ts";

export function isGgufName(path: string): boolean {
  return /\.gguf$/i.test(path);
}

export async function isGgufFile(path: string): Promise<boolean> {
  return isGgufName(path) && isFile(path);
}

/** The GGUF file of a folder whose weights lie in no other form; undefined when there is none. */
export async function ggufOfFolder(dir: string): Promise<string | undefined> {
  const names = await readdir(dir).catch((cause: unknown) => {
    throw new StatesetError("MODEL_NOT_FOUND", `The folder ${dir} cannot be listed: ${messageOf(cause)}.`, {
      hint: "Check its permissions (chmod u+rx), or name the .gguf file itself.",
      cause,
    });
  });
  const others = ["model.safetensors", "model.safetensors.index.json", "adapter_config.json"];
  if (others.some((name) => names.includes(name))) return undefined;
  const all = names.filter(isGgufName).sort();
  // What a model sees with lies beside it, and is none by itself.
  const models = all.filter((name) => !/mmproj/i.test(name));
  const found = models.length > 0 ? models : all;
  if (found.length <= 1) return found[0] && join(dir, found[0]);
  const shown = found.length > 8 ? [...found.slice(0, 8), "…"] : found;
  const wholes = new Set(found.map((name) => /^(.*)-\d{5}-of-\d{5}\.gguf$/i.exec(name)?.[1]));
  const isSplit = wholes.size === 1 && !wholes.has(undefined);
  throw new StatesetError("MODEL_NOT_FOUND", `${dir} holds ${found.length} GGUF files: ${shown.join(", ")}.`, {
    hint: isSplit
      ? `They are parts of one model. ${joinParts}`
      : `Name the one that is meant, such as ${join(dir, found[0]!)}.`,
  });
}

/** The GGUF file that a path means: itself, or the one of its folder. */
export async function ggufAt(path: string): Promise<string | undefined> {
  if (await isGgufFile(path)) return path;
  return (await isFolder(path)) ? ggufOfFolder(path) : undefined;
}

/** A file, whatever it is called. */
export async function beginsAsGguf(path: string): Promise<boolean> {
  if (!(await isFile(path))) return false;
  const handle = await open(path, "r").catch(() => undefined);
  const start = Buffer.alloc(4);
  await handle?.read(start, 0, 4, 0).finally(() => handle.close());
  return start.toString("latin1") === "GGUF";
}

/** Whether a path is that of a GGUF file, or of a folder with one, whose weights are in blocks: those can be trained by an adapter alone. */
export async function isQuantised(path: string): Promise<boolean> {
  const file = await ggufAt(path);
  if (file === undefined) return false;
  const { tensors } = await readGgufHeader(file);
  return [...tensors.values()].some(({ type }) => ggmlFormat(type).block > 1);
}

/** Where the tokenizer of a model lies, by the folder or GGUF file of its weights. */
export async function tokenizerSource(dir: string): Promise<ModelFiles> {
  const file = await ggufAt(dir);
  return file === undefined ? dir : ggufTokenizerSource(file);
}

/** A tokenizer.json beside the file wins over what the file itself says. */
async function ggufTokenizerSource(file: string): Promise<ModelFiles> {
  const dir = dirname(file);
  // Asked for by name: a folder may be entered and yet not be listed.
  const lies = (name: string) => exists(join(dir, name));
  const { metadata } = await readGgufHeader(file);
  if (!(await lies("tokenizer.json"))) return { where: file, files: tokenizerFiles(metadata, file) };
  const template = new MetadataReader(metadata, file).text("tokenizer.chat_template");
  const told = await Promise.all(["tokenizer_config.json", "chat_template.jinja", "chat_template.json"].map(lies));
  if (told.includes(true) || template === undefined) return dir;
  const tokenizerJson = (await readJsonObject(dir, "tokenizer.json")) ?? {};
  return { where: dir, files: { "tokenizer.json": tokenizerJson, "chat_template.jinja": template } };
}

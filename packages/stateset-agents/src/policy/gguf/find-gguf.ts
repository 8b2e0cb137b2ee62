import { open, readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { StatesetError } from "../../error.ts";
import { type ModelFiles, readJsonObject } from "../tokenizer/model-json.ts";
import { ggmlFormat } from "./ggml-types.ts";
import { readGgufHeader } from "./gguf-header.ts";
import { MetadataReader } from "./gguf-metadata.ts";
import { joinParts } from "./model-from-gguf.ts";
import { tokenizerFiles } from "./tokenizer-files.ts";

export function isGgufName(path: string): boolean {
  return /\.gguf$/i.test(path);
}

export async function isGgufFile(path: string): Promise<boolean> {
  if (!isGgufName(path)) return false;
  return stat(path).then(
    (stats) => stats.isFile(),
    () => false,
  );
}

/** The GGUF file of a folder whose weights lie in no other form; undefined when there is none. */
export async function ggufOfFolder(dir: string): Promise<string | undefined> {
  const names = await readdir(dir);
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

/** A file, whatever it is called. */
export async function beginsAsGguf(path: string): Promise<boolean> {
  const stats = await stat(path).catch(() => undefined);
  if (!stats?.isFile()) return false;
  const handle = await open(path, "r").catch(() => undefined);
  const start = Buffer.alloc(4);
  await handle?.read(start, 0, 4, 0).finally(() => handle.close());
  return start.toString("latin1") === "GGUF";
}

/** Whether a path is that of a GGUF file, or of a folder with one, whose weights are in blocks: those can be trained by an adapter alone. */
export async function isQuantised(path: string): Promise<boolean> {
  const folder = await stat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
  const file = folder ? await ggufOfFolder(path) : path;
  if (file === undefined || !(await isGgufFile(file))) return false;
  const { tensors } = await readGgufHeader(file);
  return [...tensors.values()].some(({ type }) => ggmlFormat(type).block > 1);
}

/** A tokenizer.json beside the file wins over what the file itself says. */
export async function ggufTokenizerSource(file: string): Promise<ModelFiles> {
  const dir = dirname(file);
  const names = await readdir(dir);
  const { metadata } = await readGgufHeader(file);
  if (!names.includes("tokenizer.json")) return { where: file, files: tokenizerFiles(metadata, file) };
  const template = new MetadataReader(metadata, file).text("tokenizer.chat_template");
  const told = ["tokenizer_config.json", "chat_template.jinja", "chat_template.json"].some((name) =>
    names.includes(name),
  );
  if (told || template === undefined) return dir;
  const tokenizerJson = (await readJsonObject(dir, "tokenizer.json")) ?? {};
  return { where: dir, files: { "tokenizer.json": tokenizerJson, "chat_template.jinja": template } };
}

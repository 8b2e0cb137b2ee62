/** Other programs that a model is compared with, each in a process of its own that answers with JSON on its last line. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { cacheFolder, isGguf, nameOf } from "./model.ts";

const here = (name: string) => fileURLToPath(new URL(name, import.meta.url));

function answer<T>(command: string, args: readonly string[]): T {
  const options = { encoding: "utf8", maxBuffer: 1 << 28 } as const;
  const { status, stdout, stderr, error } = spawnSync(command, args, options);
  if (status !== 0) throw new Error(`${args[0]} ${args[1]} failed: ${error?.message ?? stderr.trim().slice(-600)}`);
  return JSON.parse(stdout.trim().split("\n").at(-1)!) as T;
}

/** Requests with many tokens are longer than a command line may be. */
function inFile<T>(request: object, use: (file: string) => T): T {
  const file = join(cacheFolder(), `request-${process.pid}.json`);
  writeFileSync(file, JSON.stringify(request));
  try {
    return use(file);
  } finally {
    rmSync(file);
  }
}

export function ours<T>(mode: "decode" | "train", request: object): T {
  return answer(process.execPath, [here("./ours.mjs"), mode, JSON.stringify(request)]);
}

/** PyTorch, transformers and peft, where STATESET_PYTHON names an interpreter that has them (and `gguf`, for a GGUF file). */
export function torch<T>(mode: "convert" | "score" | "decode" | "train", request: object): T | undefined {
  const python = process.env.STATESET_PYTHON;
  if (!python) return undefined;
  return inFile(request, (file) => answer<T>(python, [here("./peer.py"), mode, file]));
}

/** llama.cpp, where that interpreter has `llama-cpp-python`: made for the machine it is installed on. */
export function llama<T>(mode: "decode" | "score", request: object): T | undefined {
  const python = process.env.STATESET_PYTHON;
  if (!python) return undefined;
  return inFile(request, (file) => answer<T | null>(python, [here("./llama.py"), mode, file])) ?? undefined;
}

export interface Dequantised {
  /** In Hugging Face layout. */
  folder: string;
  /** For llama.cpp; a folder that was no GGUF file has none. */
  gguf?: string;
}

/** The model's weights in f32, as transformers reads them out of a GGUF file; made once. */
export function dequantised(model: string): Dequantised | undefined {
  if (!isGguf(model)) return { folder: model };
  const folder = join(cacheFolder(), `${nameOf(model)}-f32`);
  if (!existsSync(folder)) {
    const making = `${folder}.${process.pid}`;
    mkdirSync(making, { recursive: true });
    if (!torch("convert", { gguf: model, folder: making })) return undefined;
    renameSync(making, folder);
  }
  return { folder, gguf: join(folder, "f32.gguf") };
}

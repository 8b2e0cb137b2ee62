import { createHash } from "node:crypto";
import { join } from "node:path";
import type { StoredFile } from "../stored-file.ts";
import { byName, bytesOf, type TensorToWrite, writeSafetensors } from "./write-safetensors.ts";

/** Bytes of tensors in one file, unless a single tensor has more. */
const mostBytes = 4 * 2 ** 30;

/**
 * Writes tensors to as many files as they need (`policy-00001-of-00003.safetensors`), by name, one after the other, and hashes each as
 * it is written: nobody has to read gigabytes again to learn whether they arrived.
 */
export async function writeShards(
  dir: string,
  stem: string,
  tensors: readonly TensorToWrite[],
  most = mostBytes,
): Promise<StoredFile[]> {
  const shards = cut([...tensors].sort(byName), most);
  const stored: StoredFile[] = [];
  for (const [index, shard] of shards.entries()) {
    const file = `${stem}-${padded(index + 1)}-of-${padded(shards.length)}.safetensors`;
    const hash = createHash("sha256");
    const bytes = await writeSafetensors(join(dir, file), shard, {}, hash);
    stored.push({ file, bytes, sha256: hash.digest("hex") });
  }
  return stored;
}

/** Whether a file's name is one that writeShards() gives. */
export function isShardOf(stem: string, file: string): boolean {
  return new RegExp(`^${stem}-\\d{5}-of-\\d{5}\\.safetensors$`).test(file);
}

function cut(tensors: readonly TensorToWrite[], most: number): TensorToWrite[][] {
  const shards: TensorToWrite[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const tensor of tensors) {
    bytes += bytesOf(tensor);
    if (bytes > most) {
      shards.push([]);
      bytes = bytesOf(tensor);
    }
    shards.at(-1)!.push(tensor);
  }
  return shards;
}

const padded = (number: number) => String(number).padStart(5, "0");

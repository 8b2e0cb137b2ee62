import { createHash } from "node:crypto";
import { join } from "node:path";
import { writeFileAtomic } from "../durable.ts";

/** A file as it was written. Whoever writes it hashes it: nobody reads it again to learn what it should be. */
export interface StoredFile {
  /** Its name in the folder. */
  file: string;
  bytes: number;
  sha256: string;
}

/** What a call wrote into a folder. */
export interface SnapshotFiles {
  files: readonly StoredFile[];
}

export function storeFile(dir: string, file: string, content: string | Uint8Array): StoredFile {
  const bytes = Buffer.from(content);
  writeFileAtomic(join(dir, file), bytes);
  return { file, bytes: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") };
}

export function storeJson(dir: string, file: string, value: unknown): StoredFile {
  return storeFile(dir, file, `${JSON.stringify(value, undefined, 2)}\n`);
}

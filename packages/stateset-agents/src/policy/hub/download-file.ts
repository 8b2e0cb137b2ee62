import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { downloadFile, HubApiError } from "@huggingface/hub";
import { StatesetError } from "../../error.ts";
import { blobPath } from "./hub-cache.ts";

export interface DownloadProgress {
  model: string;
  file: string;
  fileBytes: number;
  fileTotal: number;
  /** Over all files that have to be downloaded. */
  bytes: number;
  total: number;
}

/** A file of a repository. `hash` is SHA-256 of large files, and git's own (SHA-1) of small ones. */
export interface HubFile {
  path: string;
  size: number;
  hash: string;
}

export interface DownloadOptions {
  /** The repository's folder in the cache. */
  repo: string;
  id: string;
  commit: string;
  hubUrl: string;
  fetch: typeof fetch;
  report(bytes: number): void;
}

const attempts = 4;

/**
 * Downloads a file into the cache. What an interrupted download left is gone on with; a file is only ever given its final name
 * when its checksum is right.
 */
export async function downloadToBlob(file: HubFile, options: DownloadOptions): Promise<void> {
  const blob = blobPath(options.repo, file.hash);
  await mkdir(dirname(blob), { recursive: true });
  let partial = `${blob}.incomplete`;
  for (let attempt = 1; ; attempt++) {
    try {
      await fill(partial, file, options);
      if ((await checksum(partial, file)) === file.hash) break;
      await rm(partial, { force: true });
      // Perhaps another process was writing to the same file; from here on this one writes to its own.
      partial = `${blob}.${process.pid}.incomplete`;
      throw new StatesetError("HUB_UNAVAILABLE", `${options.id}/${file.path} arrived damaged: its checksum is wrong.`);
    } catch (error) {
      if (attempt === attempts || !mayPass(error)) throw error;
    }
  }
  await rename(partial, blob);
}

/** Appends what is missing. Throws when the connection ends before the file does; what came stays for the next attempt. */
async function fill(
  partial: string,
  file: HubFile,
  { id, commit, hubUrl, fetch, report }: DownloadOptions,
): Promise<void> {
  const have = await stat(partial).then(
    ({ size }) => size,
    () => 0,
  );
  let done = have > file.size ? 0 : have;
  report(done);
  const handle = await open(partial, done > 0 ? "a" : "w");
  try {
    if (done === file.size) return;
    // Plain HTTP also for files in chunked storage: the hub serves those over HTTP too, and ranges work the same for all.
    const remote = await downloadFile({ repo: id, path: file.path, revision: commit, hubUrl, fetch, xet: false });
    if (!remote) throw new StatesetError("MODEL_NOT_FOUND", `${id} lists ${file.path}, but does not have it.`);
    for await (const chunk of remote.slice(done, file.size).stream()) {
      const bytes = chunk as Uint8Array;
      // A server that ignores ranges sends the file from its start; the checksum will tell, but not before it has filled the disk.
      if (done + bytes.length > file.size) {
        await handle.truncate(0);
        throw new StatesetError("HUB_UNAVAILABLE", `${id}/${file.path} is longer than the hub said.`);
      }
      await handle.writeFile(bytes);
      done += bytes.length;
      report(done);
    }
    if (done < file.size) {
      throw new StatesetError("HUB_UNAVAILABLE", `${id}/${file.path} ended after ${done} of ${file.size} bytes.`);
    }
  } finally {
    await handle.close();
  }
}

async function checksum(path: string, { size, hash }: HubFile): Promise<string> {
  const digest = createHash(hash.length === 64 ? "sha256" : "sha1");
  // Git hashes a header with the content.
  if (hash.length !== 64) digest.update(`blob ${size}\0`);
  for await (const chunk of createReadStream(path)) digest.update(chunk as Buffer);
  return digest.digest("hex");
}

/** Whether trying again can help: not when access is refused or the disk is full. */
function mayPass(error: unknown): boolean {
  if (error instanceof HubApiError) return error.statusCode === 429 || error.statusCode >= 500;
  if (StatesetError.isInstance(error)) return error.code === "HUB_UNAVAILABLE";
  // Errors of the file system have a system call; those of fetch have none.
  return (error as NodeJS.ErrnoException | null)?.syscall === undefined;
}

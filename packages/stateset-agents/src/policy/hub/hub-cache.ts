/**
 * The cache of Hugging Face's own tools, so that a model downloaded by one is found by all:
 *
 *     models--owner--name/refs/<branch>            the commit a branch stood at
 *     models--owner--name/blobs/<hash>             the files' contents
 *     models--owner--name/snapshots/<commit>/…     the files' names, as links to blobs
 */
import { copyFile, lstat, mkdir, readFile, rename, rm, symlink } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { getHFHubCachePath, getRepoFolderName } from "@huggingface/hub";
import { writeFileAtomic } from "../../durable.ts";
import { exists } from "../what-lies-at.ts";

export function defaultCacheDir(): string {
  return getHFHubCachePath();
}

export function repoDir(cacheDir: string, id: string): string {
  return join(cacheDir, getRepoFolderName({ type: "model", name: id }));
}

export function blobPath(repo: string, hash: string): string {
  return join(repo, "blobs", hash);
}

/** The folder of a complete snapshot, or undefined. */
export async function findSnapshot(cacheDir: string, id: string, revision: string): Promise<string | undefined> {
  const repo = repoDir(cacheDir, id);
  const isCommit = /^[0-9a-f]{40}$/.test(revision);
  const commit = isCommit ? revision : await readFile(join(repo, "refs", revision), "utf8").catch(() => undefined);
  if (!commit || !/^[0-9a-f]{40}$/.test(commit.trim())) return undefined;
  const dir = join(repo, "snapshots", commit.trim());
  return (await isComplete(dir)) ? dir : undefined;
}

/** Whether everything a model needs is there; an interrupted download leaves some of it out. */
async function isComplete(dir: string): Promise<boolean> {
  const has = (name: string) => exists(join(dir, name));
  if (await has("adapter_config.json")) return has("adapter_model.safetensors");
  if (!(await has("config.json")) || !(await has("tokenizer.json"))) return false;
  if (await has("model.safetensors")) return true;
  const index = await readFile(join(dir, "model.safetensors.index.json"), "utf8").catch(() => undefined);
  if (index === undefined) return false;
  const shards = await Promise.all(shardsOf(index).map(has));
  return shards.length > 0 && shards.every(Boolean);
}

/** The shard names of an index; none when it is damaged (reading the weights will say so). */
function shardsOf(index: string): string[] {
  try {
    const map: unknown = (JSON.parse(index) as { weight_map?: unknown } | null)?.weight_map;
    const names = Object.values(map ?? {}).filter((name): name is string => typeof name === "string");
    return [...new Set(names)];
  } catch {
    return [];
  }
}

/** Gives a blob its name in a snapshot. Where links are not allowed (Windows without the right), it is copied. */
export async function linkBlob(blob: string, pointer: string): Promise<void> {
  await mkdir(dirname(pointer), { recursive: true });
  if (await exists(pointer)) return;
  // A link whose blob is gone.
  if (await lstat(pointer).catch(() => undefined)) await rm(pointer);
  await symlink(relative(dirname(pointer), blob), pointer).catch(async (error: NodeJS.ErrnoException) => {
    if (error.code === "EEXIST") return;
    await copyFile(blob, `${pointer}.${process.pid}.tmp`);
    await rename(`${pointer}.${process.pid}.tmp`, pointer);
  });
}

export function writeRef(repo: string, revision: string, commit: string): void {
  writeFileAtomic(join(repo, "refs", revision), commit);
}

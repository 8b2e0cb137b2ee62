import { stat } from "node:fs/promises";

/** What is at a path, links followed. What cannot be looked at is not there. */
async function kindAt(path: string): Promise<"file" | "folder" | "other" | undefined> {
  const stats = await stat(path).catch(() => undefined);
  if (!stats) return undefined;
  return stats.isFile() ? "file" : stats.isDirectory() ? "folder" : "other";
}

export async function exists(path: string): Promise<boolean> {
  return (await kindAt(path)) !== undefined;
}

export async function isFile(path: string): Promise<boolean> {
  return (await kindAt(path)) === "file";
}

export async function isFolder(path: string): Promise<boolean> {
  return (await kindAt(path)) === "folder";
}

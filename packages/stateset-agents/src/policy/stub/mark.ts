import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { StatesetError } from "../../error.ts";
import { type SnapshotFiles, storeJson } from "../stored-file.ts";

/** What a dry run leaves in place of weights: a file nobody can take for a model. */
export const stubMarkFile = "stub.json";

export async function writeMark(dir: string, model: string): Promise<SnapshotFiles> {
  const note = "A dry run with a stub wrote this. It is not a model.";
  return { files: [storeJson(dir, stubMarkFile, { stub: true, model, note })] };
}

export async function readMark(dir: string): Promise<void> {
  await readFile(join(dir, stubMarkFile)).catch((cause: unknown) => {
    throw new StatesetError("CHECKPOINT_NOT_FOUND", `${dir} holds no snapshot of a stub.`, { cause });
  });
}

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { messageOf, StatesetError } from "../../error.ts";

/** What a dry run leaves in place of weights: a file nobody can take for a model. */
export const stubMarkFile = "stub.json";

export async function writeMark(dir: string, model: string): Promise<void> {
  const file = join(dir, stubMarkFile);
  const note = "A dry run with a stub wrote this. It is not a model.";
  try {
    await mkdir(dir, { recursive: true });
    await writeFile(file, `${JSON.stringify({ stub: true, model, note }, null, 2)}\n`);
  } catch (cause) {
    throw new StatesetError("WRITE_FAILED", `${file} could not be written: ${messageOf(cause)}.`, { cause });
  }
}

export async function readMark(dir: string): Promise<void> {
  await readFile(join(dir, stubMarkFile)).catch((cause: unknown) => {
    throw new StatesetError("CHECKPOINT_NOT_FOUND", `${dir} holds no snapshot of a stub.`, { cause });
  });
}

import { type FileHandle, open, stat } from "node:fs/promises";
import { messageOf, StatesetError } from "../../error.ts";
import { invalidModel } from "./invalid-model.ts";

/** Read at once: bounds the memory beside the result, and stays under the 2 GiB a single read may take. */
export const chunkBytes = 8 * 1024 * 1024;

/** Opens a weight file and gives what `use` makes of it; the handle is closed when that fails. */
export async function openWeightFile<T>(
  file: string,
  use: (handle: FileHandle, size: number) => Promise<T>,
): Promise<T> {
  // Opening a pipe or a device could wait forever, so look before opening.
  const stats = await stat(file).catch((cause: unknown) => {
    throw new StatesetError("MODEL_NOT_FOUND", `No weight file at ${file}.`, { cause });
  });
  if (!stats.isFile()) throw new StatesetError("MODEL_NOT_FOUND", `${file} is not a file.`);
  const handle = await open(file, "r").catch((cause: unknown) => {
    throw new StatesetError("MODEL_NOT_FOUND", `${file} cannot be opened for reading: ${messageOf(cause)}.`, {
      hint: "Check its permissions (chmod u+r).",
      cause,
    });
  });
  try {
    return await use(handle, stats.size);
  } catch (error) {
    await handle.close();
    throw error;
  }
}

export async function readFully(handle: FileHandle, target: Uint8Array, position: number, file: string): Promise<void> {
  let done = 0;
  while (done < target.length) {
    const length = Math.min(target.length - done, chunkBytes);
    const { bytesRead } = await handle.read(target, done, length, position + done).catch((cause: unknown) => {
      throw invalidModel(file, `reading at byte ${position + done} failed`, cause);
    });
    if (bytesRead === 0) throw invalidModel(file, `it ends at byte ${position + done}, in the middle of its data`);
    done += bytesRead;
  }
}

export function refusePointer(start: Uint8Array, file: string): void {
  if (Buffer.from(start).toString("latin1", 0, 8) !== "version ") return;
  throw new StatesetError("MODEL_INVALID", `${file} is a Git LFS pointer, not the weights themselves.`, {
    hint: "Run `git lfs pull` in that folder, or load the model by its hub id.",
  });
}

export function allocate(length: number, file: string, what: string): Float32Array<ArrayBuffer> {
  try {
    return new Float32Array(length);
  } catch (cause) {
    throw new StatesetError(
      "OUT_OF_MEMORY",
      `${file}: ${what} needs ${Math.ceil((length * 4) / 2 ** 20)} MiB, more than can be allocated.`,
      { cause },
    );
  }
}

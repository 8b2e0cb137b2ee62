import { type Hash, randomBytes } from "node:crypto";
import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { syncFolder } from "../../durable.ts";
import { messageOf, StatesetError } from "../../error.ts";
import { quoted } from "./invalid-model.ts";

export interface SizedTensor {
  name: string;
  shape: readonly number[];
  /** A function is asked when its turn comes, and what it gave is let go before the next: a model is never in memory twice. */
  data: Float32Array | (() => Promise<Float32Array>);
}

export function elementsOf({ shape }: SizedTensor): number {
  return shape.reduce((product, size) => product * size, 1);
}

export function requireElements(tensor: SizedTensor, { length }: Float32Array): void {
  if (elementsOf(tensor) === length) return;
  throw new StatesetError(
    "INVALID_OPTION",
    `Tensor ${quoted(tensor.name)} of shape [${tensor.shape.join(", ")}] needs ${elementsOf(tensor)} numbers and has ${length}.`,
  );
}

/** Where a tensor comes from may fail too, which is no fault of the disk. */
class ReadFailure extends Error {}

export async function dataOf(tensor: SizedTensor): Promise<Float32Array> {
  if (typeof tensor.data !== "function") return tensor.data;
  try {
    const data = await tensor.data();
    requireElements(tensor, data);
    return data;
  } catch (cause) {
    throw new ReadFailure("", { cause });
  }
}

/** Written at once: a single write may not exceed 2 GiB, and who else has work for this thread waits while a piece is hashed. */
const pieceBytes = 8 * 1024 * 1024;

/** `hash` gets every byte while the disk does. */
export async function writeFully(handle: FileHandle, bytes: Uint8Array, hash?: Hash): Promise<void> {
  for (let from = 0; from < bytes.length; from += pieceBytes) {
    const piece = bytes.subarray(from, from + pieceBytes);
    const writing = writePiece(handle, piece);
    hash?.update(piece);
    await writing;
  }
}

async function writePiece(handle: FileHandle, piece: Uint8Array): Promise<void> {
  for (let done = 0; done < piece.length; ) done += (await handle.write(piece, done)).bytesWritten;
}

/** `file` is either the old one or the complete new one, also when the process dies halfway. */
export async function writeAtomically(file: string, fill: (handle: FileHandle) => Promise<void>): Promise<void> {
  const temporary = `${file}.${process.pid}-${randomBytes(4).toString("hex")}.tmp`;
  try {
    const handle = await open(temporary, "wx");
    try {
      await fill(handle);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, file);
    syncFolder(dirname(file));
  } catch (cause) {
    // Where the folder is none, or cannot be written to, there is nothing to remove; the failure that matters is the first one.
    await rm(temporary, { force: true }).catch(() => {});
    if (cause instanceof ReadFailure) throw cause.cause;
    throw new StatesetError("WRITE_FAILED", `${file} could not be written: ${messageOf(cause)}.`, {
      hint: "What was there before is untouched. Check the folder, its permissions and the free space.",
      cause,
    });
  }
}

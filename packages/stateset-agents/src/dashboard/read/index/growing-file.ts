/** A file that others append to, and now and then cut back or put another in the place of: what is new in it, or that it is not what it was. */
import { closeSync, fstatSync, readSync, statSync } from "node:fs";
import { setImmediate } from "node:timers/promises";
import { crc32 } from "node:zlib";
import { openPlain } from "../../../plain-file.ts";

/** How far it was read, and by what it is known again. */
export interface FileMark {
  ino: number;
  mtimeMs: number;
  /** Bytes of it when it was looked at last; whole lines of it were read up to `offset`. */
  size: number;
  offset: number;
  lines: number;
  /** Of its first bytes and of those before `offset`. */
  head: number;
  tail: number;
}

export type FileState = "gone" | "same" | "grown" | "replaced";

const knownBytes = 1024;
const chunkBytes = 1 << 20;
/** A line beyond this is not waited for. */
const longestLine = 1 << 29;

/** The one that was used last: a new one for each file would be most of what is thrown away. */
let spare: Uint8Array<ArrayBuffer> | undefined;

export function stateOf(path: string, mark: FileMark | undefined): FileState {
  let file: number | undefined;
  try {
    const { ino, size, mtimeMs } = statSync(path);
    if (!mark) return "grown";
    if (ino === mark.ino && size === mark.size && mtimeMs === mark.mtimeMs) return "same";
    if (ino !== mark.ino || size < mark.offset) return "replaced";
    file = openPlain(path);
    return headOf(file, mark.offset) === mark.head && tailOf(file, mark.offset) === mark.tail ? "grown" : "replaced";
  } catch {
    return "gone";
  } finally {
    if (file !== undefined) closeSync(file);
  }
}

/**
 * Reads on from the mark. `take` gets bytes [from, to), which begin with a line, and says how far it has used them. Between pieces others
 * have their turn.
 */
export async function readOn(
  path: string,
  mark: FileMark | undefined,
  take: (bytes: Uint8Array<ArrayBuffer>, from: number, to: number) => number,
  lines: () => number,
): Promise<FileMark> {
  const file = openPlain(path);
  let buffer = spare ?? new Uint8Array(chunkBytes);
  spare = undefined;
  try {
    const { ino, size, mtimeMs } = fstatSync(file);
    let offset = mark?.offset ?? 0;
    let held = 0;
    for (let at = offset; at < size; ) {
      const read = readSync(file, buffer, held, Math.min(buffer.length - held, size - at), at);
      if (read === 0) break;
      at += read;
      held += read;
      const used = take(buffer, 0, held);
      offset += used;
      buffer.copyWithin(0, used, held);
      held -= used;
      if (held === buffer.length) {
        if (held >= longestLine) break;
        const larger = new Uint8Array(2 * held);
        larger.set(buffer);
        buffer = larger;
      }
      if (at < size) await setImmediate();
    }
    return {
      ino,
      mtimeMs,
      size,
      offset,
      lines: lines(),
      head: headOf(file, offset),
      tail: tailOf(file, offset),
    };
  } finally {
    closeSync(file);
    if (buffer.length === chunkBytes) spare = buffer;
  }
}

function headOf(file: number, offset: number): number {
  return checksum(file, 0, Math.min(knownBytes, offset));
}

function tailOf(file: number, offset: number): number {
  const from = Math.max(0, offset - knownBytes);
  return checksum(file, from, offset - from);
}

function checksum(file: number, from: number, length: number): number {
  const bytes = Buffer.alloc(length);
  return crc32(bytes.subarray(0, readSync(file, bytes, 0, length, from)));
}

import { invalidModel, quoted } from "../weights/invalid-model.ts";
import type { GgufScalar, GgufValue } from "./gguf-metadata.ts";

/** Thrown where the bytes at hand end and the file goes on. */
export class NeedsMore extends Error {}

/** Metadata of a vocabulary of 256,000 tokens takes about 15 MB; what asks for more than this is no header. */
export const maxHeaderBytes = 100_000_000;
/** Of all lists together: each element takes 8 bytes or more in memory, however small it is in the file. */
const maxElements = 2 ** 24;

/** By the number that a file has for them. */
const kinds = ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "text", "list", "u64", "i64", "f64"] as const;
/** Bytes of a value, at least: those of a text's length. */
const smallest = [1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8];

/** Reads numbers, texts and lists from the start of a file and goes on behind them. Little-endian. */
export class GgufCursor {
  readonly #view: DataView;
  readonly #bytes: Uint8Array;
  readonly #fileSize: number;
  readonly #file: string;
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  #elements = 0;
  at = 0;

  constructor(bytes: Uint8Array, fileSize: number, file: string) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#fileSize = fileSize;
    this.#file = file;
  }

  fail(what: string): Error {
    return invalidModel(this.#file, what);
  }

  /** Where the next `bytes` begin. Refused before anything is allocated when the file does not hold them. */
  #take(bytes: number, what: string): number {
    const start = this.at;
    const end = start + bytes;
    if (end > this.#fileSize) throw this.fail(`it ends at byte ${this.#fileSize}, in the middle of ${what}`);
    if (end > maxHeaderBytes) throw this.fail(`the header is longer than ${maxHeaderBytes} bytes`);
    if (end > this.#bytes.length) throw new NeedsMore();
    this.at = end;
    return start;
  }

  u32(what: string): number {
    return this.#view.getUint32(this.#take(4, what), true);
  }

  /** A count or a size: a 64-bit number that is exact in a double. */
  size(what: string): number {
    const value = this.#view.getBigUint64(this.#take(8, what), true);
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw this.fail(`${what} is ${value}`);
    return Number(value);
  }

  /** A number of things of at least `bytes` each, which the rest of the file must have room for. */
  count(bytes: number, what: string): number {
    const value = this.#view.getBigUint64(this.#take(8, what), true);
    if (value > BigInt(Math.floor((this.#fileSize - this.at) / bytes))) {
      throw this.fail(`${what} is ${value}, more than the file has room for`);
    }
    return Number(value);
  }

  text(what: string): string {
    const length = this.count(1, `the length of ${what}`);
    const start = this.#take(length, what);
    try {
      return this.#decoder.decode(this.#bytes.subarray(start, start + length));
    } catch {
      throw this.fail(`${what} is not UTF-8`);
    }
  }

  value(key: string): GgufValue {
    const what = `the value of ${quoted(key)}`;
    const kind = this.u32(what);
    if (kinds[kind] !== "list") return this.#scalar(kind, what);
    const of = this.u32(what);
    if (kinds[of] === undefined) throw this.fail(`${what} is a list of unknown type ${of}`);
    if (kinds[of] === "list") throw this.fail(`${what} is a list of lists`);
    const length = this.count(smallest[of]!, `the length of ${what}`);
    this.#elements += length;
    if (this.#elements > maxElements) throw this.fail(`its lists hold more than ${maxElements} elements`);
    // Not in one array of its full length: a file that lies about what follows is found out on the way.
    const list: GgufScalar[] = [];
    for (let i = 0; i < length; i++) list.push(this.#scalar(of, what));
    return list;
  }

  #scalar(kind: number, what: string): GgufScalar {
    const view = this.#view;
    switch (kinds[kind]) {
      case "u8":
        return view.getUint8(this.#take(1, what));
      case "i8":
        return view.getInt8(this.#take(1, what));
      case "u16":
        return view.getUint16(this.#take(2, what), true);
      case "i16":
        return view.getInt16(this.#take(2, what), true);
      case "u32":
        return this.u32(what);
      case "i32":
        return view.getInt32(this.#take(4, what), true);
      case "f32":
        return view.getFloat32(this.#take(4, what), true);
      case "f64":
        return view.getFloat64(this.#take(8, what), true);
      case "u64":
        return exact(view.getBigUint64(this.#take(8, what), true));
      case "i64":
        return exact(view.getBigInt64(this.#take(8, what), true));
      case "text":
        return this.text(what);
      case "bool": {
        const value = view.getUint8(this.#take(1, what));
        if (value > 1) throw this.fail(`${what} is ${value} where true or false is due`);
        return value === 1;
      }
      default:
        throw this.fail(`${what} has the unknown type ${kind}`);
    }
  }
}

function exact(value: bigint): number | bigint {
  return value >= Number.MIN_SAFE_INTEGER && value <= Number.MAX_SAFE_INTEGER ? Number(value) : value;
}

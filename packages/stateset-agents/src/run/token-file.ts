/**
 * trajectories/step-000123.bin: the tokens of recorded conversations, column by column. Little-endian.
 *
 *   bytes 0–7    "ssatraj\n"
 *   bytes 8–11   u32, the version: 1
 *   bytes 12–15  u32, the length of the table that follows
 *   the table    JSON, spaces at its end: { tokens, learnTokens, crc32, columns: [{ name, dtype, per, at }] }
 *   the columns  each from byte `at` after the table, which is a multiple of 4; `crc32` is of all of them
 *
 * A column has one number per token, or per learn token (`per`): those with learn = 1, but for the first of a chain. Chains stand one
 * after the other, in the order of the records, which say where (`offset`, `learnOffset`).
 *   in Python: numpy.frombuffer(data, "<f4", learnTokens, 16 + tableLength + at)
 */
import { existsSync } from "node:fs";
import { endianness } from "node:os";
import { crc32 } from "node:zlib";
import { messageOf, StatesetError } from "../error.ts";
import { readPlain } from "../plain-file.ts";

const magic = "ssatraj\n";
const version = 1;
const headBytes = 16;

const kinds = { i32: Int32Array, f32: Float32Array, u8: Uint8Array } as const;
type Dtype = keyof typeof kinds;
type Numbers<D extends Dtype> = InstanceType<(typeof kinds)[D]>;

/** Every column there can be. Those a file has no number for are not in it. */
export const tokenColumns = {
  tokens: { dtype: "i32", per: "token" },
  logprobs: { dtype: "f32", per: "token" },
  learn: { dtype: "u8", per: "token" },
  turn: { dtype: "i32", per: "token" },
  samplerLogprobs: { dtype: "f32", per: "token" },
  advantage: { dtype: "f32", per: "learn" },
  ratio: { dtype: "f32", per: "learn" },
  entropy: { dtype: "f32", per: "learn" },
  reference: { dtype: "f32", per: "learn" },
  value: { dtype: "f32", per: "learn" },
} as const satisfies Record<string, { dtype: Dtype; per: "token" | "learn" }>;

export type ColumnName = keyof typeof tokenColumns;
export const columnNames = Object.keys(tokenColumns) as ColumnName[];
/** What every token has. */
const always: readonly ColumnName[] = ["tokens", "logprobs", "learn", "turn"];

export type Columns = { [N in ColumnName]?: Numbers<(typeof tokenColumns)[N]["dtype"]> };

interface Table {
  tokens: number;
  learnTokens: number;
  crc32: number;
  columns: { name: string; dtype: string; per: string; at: number }[];
}

export interface TokenCounts {
  tokens: number;
  learnTokens: number;
}

const padded = (bytes: number) => Math.ceil(bytes / 4) * 4;

/** Lays a file out and has its columns filled in place: `fill` gets them zeroed, those after the update and of the sampler as NaN. */
export function encodeTokens(
  counts: TokenCounts,
  present: ReadonlySet<ColumnName>,
  fill: (columns: Columns) => void,
): Uint8Array {
  const names = columnNames.filter((name) => always.includes(name) || present.has(name));
  let size = 0;
  const table = names.map((name) => {
    const { dtype, per } = tokenColumns[name];
    const at = size;
    size += padded(countOf(counts, per) * kinds[dtype].BYTES_PER_ELEMENT);
    return { name, dtype, per, at };
  });
  const body = new ArrayBuffer(size);
  const columns = viewsOf(body, counts, table);
  for (const name of names) if (!always.includes(name)) columns[name]!.fill(Number.NaN);
  fill(columns);
  swapIfBig(body, counts, table);
  const bytes = new Uint8Array(body);
  const json = JSON.stringify({ ...counts, crc32: crc32(bytes), columns: table } satisfies Table);
  const text = Buffer.from(json.padEnd(padded(Buffer.byteLength(json))));
  const head = Buffer.alloc(headBytes);
  head.write(magic, "latin1");
  head.writeUInt32LE(version, 8);
  head.writeUInt32LE(text.length, 12);
  return Buffer.concat([head, text, bytes]);
}

/** Undefined where there is no such file. A damaged one is refused by name. */
export function readTokens(path: string): (TokenCounts & { columns: Columns }) | undefined {
  if (!existsSync(path)) return undefined;
  let data: Buffer;
  try {
    data = readPlain(path);
  } catch (error) {
    throw damaged(path, messageOf(error), error);
  }
  if (data.length < headBytes || data.toString("latin1", 0, 8) !== magic) throw damaged(path, "it begins otherwise");
  if (data.readUInt32LE(8) !== version) throw damaged(path, `it has version ${data.readUInt32LE(8)}, not ${version}`);
  const from = headBytes + data.readUInt32LE(12);
  if (from % 4 !== 0 || from > data.length) throw damaged(path, "its table is cut off");
  const table = parseTable(path, data.toString("utf8", headBytes, from));
  // A copy, which begins where numbers of four bytes may.
  const body = new Uint8Array(data.subarray(from)).buffer;
  const { tokens, learnTokens } = table;
  for (const { name, at, dtype, per } of known(table)) {
    const bytes = countOf(table, per) * kinds[dtype].BYTES_PER_ELEMENT;
    if (at % 4 !== 0 || at + bytes > body.byteLength) throw damaged(path, `the column "${name}" is cut off`);
  }
  if (crc32(new Uint8Array(body)) !== table.crc32) throw damaged(path, "its numbers are not those that were written");
  for (const name of always) {
    if (!table.columns.some((column) => column.name === name)) throw damaged(path, `it has no column "${name}"`);
  }
  swapIfBig(body, table, known(table));
  return { tokens, learnTokens, columns: viewsOf(body, table, known(table)) };
}

export function damaged(path: string, why: string, cause?: unknown): StatesetError {
  return new StatesetError("INVALID_DATA", `${path} is damaged: ${why}.`, {
    hint: "The conversations themselves are in the .jsonl file beside it; remove this file to read them without tokens.",
    cause,
  });
}

interface KnownColumn {
  name: ColumnName;
  dtype: Dtype;
  per: "token" | "learn";
  at: number;
}

/** Columns of a later version are passed over. */
function known({ columns }: Table): KnownColumn[] {
  return columns.filter((column): column is KnownColumn => {
    const own = tokenColumns[column.name as ColumnName];
    return own !== undefined && own.dtype === column.dtype && own.per === column.per;
  });
}

function parseTable(path: string, text: string): Table {
  let table: Table;
  try {
    table = JSON.parse(text) as Table;
  } catch (error) {
    throw damaged(path, "its table is not JSON", error);
  }
  const whole = (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0;
  const fits =
    whole(table?.tokens) &&
    whole(table.learnTokens) &&
    Array.isArray(table.columns) &&
    table.columns.every((column) => typeof column?.name === "string" && whole(column.at));
  if (!fits) throw damaged(path, "its table makes no sense");
  return table;
}

function countOf({ tokens, learnTokens }: TokenCounts, per: "token" | "learn"): number {
  return per === "token" ? tokens : learnTokens;
}

function viewsOf(body: ArrayBuffer, counts: TokenCounts, table: readonly KnownColumn[]): Columns {
  return Object.fromEntries(
    table.map(({ name, dtype, per, at }) => [name, new kinds[dtype](body, at, countOf(counts, per))]),
  );
}

/** For machines that keep the large end first. */
function swapIfBig(body: ArrayBuffer, counts: TokenCounts, table: readonly KnownColumn[]): void {
  if (endianness() === "LE") return;
  for (const { dtype, per, at } of table) {
    if (dtype !== "u8") Buffer.from(body, at, 4 * countOf(counts, per)).swap32();
  }
}

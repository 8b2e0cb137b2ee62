/**
 * Numbers on their way to the page: a head of JSON and columns of numbers that are viewed where they lie. Little-endian.
 *
 *   bytes 0–3   u32, the length of the head, spaces at its end included
 *   the head    JSON: { …what the answer says, columns: [{ name, dtype, length, at }] }
 *   the columns each from byte `at` after the head; the head's end and every `at` are multiples of 8
 *
 * No module of Node: the page reads with it what the server wrote.
 */
const kinds = { f64: Float64Array, f32: Float32Array, i32: Int32Array, u8: Uint8Array } as const;
type Dtype = keyof typeof kinds;
export type NumberColumn = InstanceType<(typeof kinds)[Dtype]>;

interface Placed {
  name: string;
  dtype: Dtype;
  length: number;
  at: number;
}

export interface Packed<Head> {
  head: Head;
  columns: Readonly<Record<string, NumberColumn>>;
}

const aligned = (bytes: number) => Math.ceil(bytes / 8) * 8;

export function encodePacked(head: object, columns: Readonly<Record<string, NumberColumn>>): Uint8Array<ArrayBuffer> {
  let size = 0;
  const placed = Object.entries(columns).map(([name, column]): Placed => {
    const at = size;
    size += aligned(column.byteLength);
    return { name, dtype: dtypeOf(column), length: column.length, at };
  });
  const text = new TextEncoder().encode(JSON.stringify({ ...head, columns: placed }));
  // Four bytes of length stand before the head: with them it ends where numbers of eight bytes may begin.
  const headBytes = aligned(4 + text.length) - 4;
  const bytes = new Uint8Array(4 + headBytes + size);
  bytes.fill(0x20, 4, 4 + headBytes);
  bytes.set(text, 4);
  new DataView(bytes.buffer).setUint32(0, headBytes, true);
  placed.forEach(({ name, at }) => {
    const { buffer, byteOffset, byteLength } = columns[name]!;
    bytes.set(new Uint8Array(buffer, byteOffset, byteLength), 4 + headBytes + at);
  });
  return bytes;
}

export function decodePacked<Head>(data: ArrayBuffer): Packed<Head> {
  const headBytes = new DataView(data).getUint32(0, true);
  const text = new TextDecoder().decode(new Uint8Array(data, 4, headBytes));
  const { columns: placed, ...head } = JSON.parse(text) as { columns: Placed[] };
  const columns = placed.map(({ name, dtype, length, at }) => [
    name,
    new kinds[dtype](data, 4 + headBytes + at, length),
  ]);
  return { head: head as Head, columns: Object.fromEntries(columns) as Record<string, NumberColumn> };
}

function dtypeOf(column: NumberColumn): Dtype {
  return (Object.keys(kinds) as Dtype[]).find((dtype) => column instanceof kinds[dtype])!;
}

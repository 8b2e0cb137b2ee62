/**
 * The part of the protocol-buffers wire format that TensorBoard and W&B files need, written by hand:
 * https://protobuf.dev/programming-guides/encoding. A field is its key (number << 3 | wire type) and its value.
 */
export type Field = Uint8Array;

const text = new TextEncoder();

export function message(...fields: readonly (Field | undefined)[]): Uint8Array {
  return concat(fields.filter((field) => field !== undefined));
}

export function varintField(number: number, value: number | bigint | boolean): Field {
  return concat([varint(BigInt(number) << 3n), varint(BigInt(value))]);
}

export function doubleField(number: number, value: number): Field {
  const bytes = new Uint8Array(8);
  new DataView(bytes.buffer).setFloat64(0, value, true);
  return concat([varint((BigInt(number) << 3n) | 1n), bytes]);
}

export function floatField(number: number, value: number): Field {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setFloat32(0, value, true);
  return concat([varint((BigInt(number) << 3n) | 5n), bytes]);
}

/** A sub-message or bytes field. */
export function bytesField(number: number, value: Uint8Array): Field {
  return concat([varint((BigInt(number) << 3n) | 2n), varint(BigInt(value.length)), value]);
}

export function stringField(number: number, value: string): Field {
  return bytesField(number, text.encode(value));
}

/** Base-128, low bits first; a negative int64 takes ten bytes. */
function varint(value: bigint): Uint8Array {
  let rest = BigInt.asUintN(64, value);
  const bytes: number[] = [];
  while (rest > 0x7fn) {
    bytes.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  bytes.push(Number(rest));
  return Uint8Array.from(bytes);
}

export function concat(parts: readonly Uint8Array[]): Uint8Array {
  const result = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    result.set(part, at);
    at += part.length;
  }
  return result;
}

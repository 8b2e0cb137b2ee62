/** What single tokens spell, in bytes: a token may hold a part of a character, so its text alone would not say. */
import type { AddedToken } from "./added-tokens.ts";
import { isObject, type JsonObject } from "./model-json.ts";

export interface TokenBytes {
  /** By id; undefined where it has no text. */
  bytes: readonly (Uint8Array | undefined)[];
  /** Ids of control tokens, whose bytes are their spelling. */
  control: ReadonlySet<number>;
}

/**
 * Of vocabularies whose tokens are bytes, in GPT-2's alphabet, and of those that write a space as ▁ and have a token for every byte.
 * Undefined for others: what their tokens spell depends on what stands beside them.
 */
export function tokenBytesOf(
  { decoder, model }: JsonObject,
  vocabulary: ReadonlyMap<string, number>,
  control: readonly AddedToken[],
  size: number,
): TokenBytes | undefined {
  const types = typesIn(decoder);
  const spelling = types.has("ByteLevel")
    ? byteLevel
    : types.has("ByteFallback") || (isObject(model) && model.byte_fallback === true)
      ? sentencePiece
      : undefined;
  if (!spelling) return undefined;
  const bytes: (Uint8Array | undefined)[] = new Array(size).fill(undefined);
  for (const [piece, id] of vocabulary) bytes[id] = spelling(piece);
  for (const { id, content } of control) bytes[id] = Buffer.from(content, "utf8");
  return { bytes, control: new Set(control.map(({ id }) => id)) };
}

function typesIn(decoder: unknown): Set<unknown> {
  if (!isObject(decoder)) return new Set();
  const inner = Array.isArray(decoder.decoders) ? decoder.decoders.flatMap((one) => [...typesIn(one)]) : [];
  return new Set([decoder.type, ...inner]);
}

/** GPT-2's letters for bytes: those that print are themselves, the others follow from U+0100 on. */
const letters = new Map<string, number>();
let next = 0x100;
for (let byte = 0; byte < 256; byte++) {
  const prints = (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
  letters.set(String.fromCodePoint(prints ? byte : next++), byte);
}

/** Text that was added to such a vocabulary may hold other letters; they are what they are. */
function byteLevel(piece: string): Uint8Array {
  const bytes = [...piece].map((letter) => letters.get(letter));
  return bytes.every((byte) => byte !== undefined) ? Uint8Array.from(bytes) : Buffer.from(piece, "utf8");
}

function sentencePiece(piece: string): Uint8Array {
  const [, hex] = /^<0x([0-9A-Fa-f]{2})>$/.exec(piece) ?? [];
  if (hex !== undefined) return Uint8Array.of(Number.parseInt(hex, 16));
  return Buffer.from(piece.replaceAll("▁", " "), "utf8");
}

/** What users' own parts are, in a form that can be written down and compared: plain facts, and fingerprints of what is not plain. */
import { createHash } from "node:crypto";

/**
 * Sixteen hex digits that are the same for the same value in every process. Keys count in no order; functions and classes by their
 * source, which does not hold what they close over.
 */
export function fingerprint(value: unknown): string {
  const digest = new Digest();
  feed(digest, value, new Set());
  return digest.hex().slice(0, 16);
}

/** A hash that is fed in large pieces: that of a hundred thousand scenarios takes millions of small ones. */
class Digest {
  readonly #hash = createHash("sha256");
  #text = "";

  add(text: string): void {
    this.#text += text;
    if (this.#text.length >= 1 << 14) this.#flush();
  }

  addBytes(bytes: Uint8Array): void {
    this.#flush();
    this.#hash.update(bytes);
  }

  hex(): string {
    this.#flush();
    return this.#hash.digest("hex");
  }

  #flush(): void {
    this.#hash.update(this.#text);
    this.#text = "";
  }
}

/** A list as its length and fingerprint. */
export function describeList(items: readonly unknown[]): { count: number; fingerprint: string } {
  return { count: items.length, fingerprint: fingerprint(items) };
}

/** The name and source of an object's class. */
export function describeClass(value: object): { kind: string; source: string } {
  return { kind: value.constructor.name, source: fingerprint(value.constructor) };
}

/** Plain data as it is, everything else as its fingerprint. Undefined for what is undefined. */
export function describeValue(value: unknown): unknown {
  if (typeof value === "function" || value instanceof RegExp || ArrayBuffer.isView(value)) return fingerprint(value);
  if (Array.isArray(value)) return value.map(describeValue);
  if (typeof value !== "object" || value === null) return value;
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype !== Object.prototype && prototype !== null) return describeClass(value).kind;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, describeValue(inner)]));
}

function feed(digest: Digest, value: unknown, above: Set<unknown>): void {
  if (typeof value === "function") digest.add(`f${String(value)}`);
  else if (ArrayBuffer.isView(value)) {
    digest.add(`b${value.byteLength}:`);
    digest.addBytes(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
  } else if (typeof value !== "object" || value === null || value instanceof RegExp) {
    digest.add(`${typeof value}${String(value)};`);
  } else if (above.has(value)) digest.add("circle;");
  else {
    above.add(value);
    const list = Array.isArray(value);
    const entries = list ? value.entries() : Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
    digest.add(list ? "[" : "{");
    for (const [key, inner] of entries) {
      if (inner === undefined) continue;
      digest.add(`${key}:`);
      feed(digest, inner, above);
    }
    digest.add(list ? "]" : "}");
    above.delete(value);
  }
}

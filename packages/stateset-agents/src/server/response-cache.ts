import { createHash } from "node:crypto";
import { canonicalJson } from "../canonical-json.ts";

export interface CachedRequest {
  /** Whose it is: a reply is never given to another key. Undefined where the server asks for none. */
  keyId: string | undefined;
  model: string;
  /** Of the weights that would answer. */
  version: string;
  /** As resolved: what the client left out is the agent's. */
  temperature: number;
  seed: number | undefined;
  /** The body, as read from JSON. */
  body: unknown;
}

export interface ResponseCache {
  get(key: string): string | undefined;
  set(key: string, reply: string): void;
  readonly entries: number;
  readonly bytes: number;
}

/** What a reply is kept under; undefined where the same request may be answered otherwise the next time. */
export function responseKey({ keyId, model, version, temperature, seed, body }: CachedRequest): string | undefined {
  if (temperature !== 0 && seed === undefined) return undefined;
  const parts = [keyId ?? null, model, version, temperature, seed ?? null, body];
  return createHash("sha256").update(canonicalJson(parts)).digest("base64");
}

/** Replies that were given lately, within a number of entries and bytes; the one not asked for longest goes first. */
export function createResponseCache(most: { entries: number; bytes: number }): ResponseCache {
  // The order of a Map is that of insertion.
  const replies = new Map<string, string>();
  let bytes = 0;
  const sizeOf = (key: string, reply: string) => Buffer.byteLength(key) + Buffer.byteLength(reply);
  const remove = (key: string) => {
    const reply = replies.get(key);
    if (reply === undefined) return undefined;
    replies.delete(key);
    bytes -= sizeOf(key, reply);
    return reply;
  };
  const add = (key: string, reply: string) => {
    replies.set(key, reply);
    bytes += sizeOf(key, reply);
  };
  return {
    get(key) {
      const reply = remove(key);
      if (reply !== undefined) add(key, reply);
      return reply;
    },
    set(key, reply) {
      remove(key);
      // One that would push out all others is not kept.
      if (sizeOf(key, reply) > most.bytes) return;
      add(key, reply);
      while (replies.size > most.entries || bytes > most.bytes) remove(replies.keys().next().value!);
    },
    get entries() {
      return replies.size;
    },
    get bytes() {
      return bytes;
    },
  };
}

/** Keys as callers hold them: `sk-ss-<id>-<secret>`. The id finds the key and may be shown; the whole is only ever kept as its hash. */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";

const pattern = /^sk-ss-([0-9a-f]{16})-[A-Za-z0-9_-]{43}$/;
export const idPattern = /^[0-9a-f]{16}$/;

/** A new one: 8 random bytes of id, 32 of secret. */
export function createToken(): { id: string; token: string } {
  const id = randomBytes(8).toString("hex");
  return { id, token: `sk-ss-${id}-${randomBytes(32).toString("base64url")}` };
}

/** The id inside a token; undefined for what is none. */
export function idIn(token: string): string | undefined {
  return pattern.exec(token)?.[1];
}

/** A SHA-256 is enough: the secret has 256 random bits, so there is nothing to guess. */
export function hashOf(token: string): Buffer {
  return createHash("sha256").update(token).digest();
}

/** The one way in which keys are compared: how long it takes says nothing of where they differ. */
export function matches(token: string, hash: Buffer): boolean {
  return timingSafeEqual(hashOf(token), hash);
}

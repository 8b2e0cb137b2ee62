/** Text that only this server can have written and only it can read: AES-256-GCM, so that what was changed by a bit opens no more. */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";

export interface Seal {
  seal(text: string): string;
  /** Undefined for what was not sealed here, or not for the same purpose. */
  open(sealed: string): string | undefined;
}

const [nonceBytes, tagBytes] = [12, 16];

/** `purpose`: what is sealed for one is nothing for another, though the secret be the same. */
export function createSeal(secret: Uint8Array, purpose: string): Seal {
  const key = new Uint8Array(hkdfSync("sha256", secret, "", purpose, 32));
  return {
    seal(text) {
      const nonce = randomBytes(nonceBytes);
      const cipher = createCipheriv("aes-256-gcm", key, nonce);
      const hidden = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), hidden]).toString("base64url");
    },
    open(sealed) {
      const bytes = Buffer.from(sealed, "base64url");
      // Other spellings of the same bytes are none of ours.
      if (bytes.length < nonceBytes + tagBytes || bytes.toString("base64url") !== sealed) return undefined;
      const hidden = bytes.subarray(nonceBytes + tagBytes);
      try {
        const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, nonceBytes), {
          authTagLength: tagBytes,
        });
        decipher.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes));
        return Buffer.concat([decipher.update(hidden), decipher.final()]).toString("utf8");
      } catch {
        return undefined;
      }
    },
  };
}

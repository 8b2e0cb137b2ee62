/** The secret that cookies are made with. It outlives the server, so that a page goes on by itself when the server was started again. */
import { randomBytes } from "node:crypto";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { makeFolders, writeFileAtomic } from "../../durable.ts";

const secretBytes = 32;

/** Where nothing can be written it lasts as long as the process. */
export function sessionSecret(cacheDir: string): Uint8Array {
  const file = join(cacheDir, "session-secret");
  const own = randomBytes(secretBytes);
  try {
    makeFolders(cacheDir);
    writeFileSync(file, own.toString("hex"), { flag: "wx", mode: 0o600 });
    return own;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") return own;
  }
  try {
    const known = Buffer.from(readFileSync(file, "utf8"), "hex");
    // One that others could read is no secret any more; half of one never was.
    const open = process.platform !== "win32" && (statSync(file).mode & 0o077) !== 0;
    if (known.length === secretBytes && !open) return known;
    writeFileAtomic(file, own.toString("hex"), { mode: 0o600 });
  } catch {
    // Somebody else's: then it is of no use to us.
  }
  return own;
}

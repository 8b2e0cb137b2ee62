/** Gives the tests a temporary folder of their own, and fails the run when one of them leaves something in it. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

const prefix = "stateset-tests-";

/** Caches that tools keep there on purpose. */
const caches = /^(?:tsx-|jiti$|node-compile-cache$|node-jiti$|torchinductor_)/;

export default function setup(): (() => void) | undefined {
  const before = process.env.TMPDIR;
  // Each project of vitest.config.ts calls it; sockets want short paths.
  if (before !== undefined && basename(before).startsWith(prefix)) return undefined;
  const folder = mkdtempSync(join(tmpdir(), prefix));
  process.env.TMPDIR = folder;
  return () => {
    if (before === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = before;
    const left = readdirSync(folder).filter((name) => !caches.test(name));
    rmSync(folder, { recursive: true, force: true });
    if (left.length === 0) return;
    console.error(
      `Tests left ${left.length} temporary folders or files behind: ${left.slice(0, 10).join(", ")}. Make them with temporaryFolder() of packages/stateset-agents/test/temporary-folder.ts.`,
    );
    // What a teardown throws is printed, and the run passes all the same.
    process.exitCode = 1;
  };
}

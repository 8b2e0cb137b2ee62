import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const made: string[] = [];

/** A new folder that is removed when the test file is done. */
export function temporaryFolder(): string {
  const dir = mkdtempSync(join(tmpdir(), "stateset-test-"));
  made.push(dir);
  return dir;
}

/** What test/setup.ts does at the end of each file. */
export function removeTemporaryFolders(): void {
  for (const dir of made.splice(0)) rmSync(dir, { recursive: true, force: true });
}

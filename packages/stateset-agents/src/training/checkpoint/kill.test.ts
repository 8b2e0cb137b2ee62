import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { afterAll, describe, expect, it } from "vitest";

const root = mkdtempSync(join(tmpdir(), "kill-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const program = fileURLToPath(new URL("../../test-support/killable-run.ts", import.meta.url));
const tsx = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;

/** How many times a run is killed; the full proof is STATESET_KILLS=50. */
const kills = Number(process.env.STATESET_KILLS ?? 3);

function start(dir: string): { child: ChildProcess; exit: Promise<number | null> } {
  const child = spawn(process.execPath, ["--import", tsx, program, dir], { stdio: ["ignore", "pipe", "inherit"] });
  return { child, exit: new Promise((resolve) => child.on("exit", (code) => resolve(code))) };
}

/** Kills the run `afterMs` after it has started (or restarted). True when it died of it. */
async function killed(dir: string, afterMs: number): Promise<boolean> {
  const { child, exit } = start(dir);
  child.stdout!.once("data", () => setTimeout(() => child.kill("SIGKILL"), afterMs));
  return (await exit) === null;
}

/** Everything that must not depend on the kills, by relative path. */
function contents(dir: string): Record<string, string> {
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const paths = files.map((entry) => join(entry.parentPath, entry.name).slice(dir.length + 1)).sort();
  const timed = (path: string) => path === "timing.jsonl";
  return Object.fromEntries(
    paths.filter((path) => !timed(path)).map((path) => [path, readFileSync(join(dir, path)).toString("base64")]),
  );
}

describe("a run that is killed", () => {
  it(`ends in the same bytes after kill -9 at ${kills} random moments, when resumed`, {
    timeout: 600_000,
  }, async () => {
    const whole = join(root, "whole");
    const began = performance.now();
    expect(await start(whole).exit).toBe(0);
    const duration = performance.now() - began;
    const expected = contents(whole);
    let died = 0;
    for (let i = 0; i < kills; i++) {
      const dir = join(root, `killed-${i}`);
      if (await killed(dir, (Math.random() * duration) / 2)) died++;
      // Some are killed a second time, while they resume.
      if (i % 2 === 1 && (await killed(dir, (Math.random() * duration) / 4))) died++;
      expect(await start(dir).exit).toBe(0);
      const found = contents(dir);
      expect(Object.keys(found)).toEqual(Object.keys(expected));
      for (const [path, content] of Object.entries(expected)) expect(found[path] === content, path).toBe(true);
      rmSync(dir, { recursive: true });
    }
    expect(died).toBeGreaterThan(0);
  });
});

/** Benchmarks' trainings in processes of their own: a failure loses no other, an interruption loses nothing that was finished. */
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, it } from "vitest";

const dir = mkdtempSync(join(tmpdir(), "parallel-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const file = join(dir, "rows.jsonl");

function start(args: readonly string[], env: Record<string, string> = {}) {
  const entry = fileURLToPath(new URL("parallel-entry.ts", import.meta.url));
  const { stdout, stderr } = spawnSync(process.execPath, ["--import", "tsx", entry, ...args], {
    env: { ...process.env, ...env },
    encoding: "utf8",
  });
  return { ...JSON.parse(stdout.trimEnd().split("\n").at(-1)!), said: stderr };
}

it("keeps what is finished, reports what failed, and goes on where it was", { timeout: 60_000 }, () => {
  const first = start([file, "a"], { FAIL: "1" });
  expect(first.results).toEqual([
    [1, 1],
    [3, 9],
  ]);
  expect(first.failed).toEqual([[2, "exit code 1: Error: two is out of order"]]);
  expect(first.said).toContain("3/3");

  // As an interruption leaves it: a line cut short.
  appendFileSync(file, '{"settings":"');
  const second = start([file, "a"]);
  expect(second).toMatchObject({ failed: [], left: 0 });
  expect(second.results).toEqual([
    [1, 1],
    [2, 4],
    [3, 9],
  ]);
  expect(second.said).toContain("2 of 3 jobs are kept");
  expect(second.said).toContain("1/1");

  expect(start([file, "a", "0"])).toMatchObject({ results: second.results, left: 0 });

  // Other settings: nothing that is kept counts. No time: nothing is begun.
  expect(start([file, "b", "0"])).toMatchObject({ results: [], failed: [], left: 3 });
  expect(readFileSync(file, "utf8").match(/"square"/g)).toHaveLength(3);
});

import { execFileSync } from "node:child_process";
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { type RunFile, runFiles } from "../../run/layout.ts";
import { createReader } from "./create-reader.ts";

const root = temporaryFolder();
const runs = join(root, "runs");
const written = ["config", "status", "lock", "events", "metrics", "evaluations", "timing", "live", "notes"] as const;

function make(name: string, file: RunFile, put: (path: string) => void): void {
  const dir = join(runs, name);
  mkdirSync(join(dir, "trajectories"), { recursive: true });
  writeFileSync(join(dir, "config.json"), JSON.stringify({ version: 2, id: name }));
  rmSync(join(dir, runFiles[file]), { force: true });
  put(join(dir, runFiles[file]));
}

// Windows has no such files. Without the mend the pipe is waited for until the test's time is up.
it.skipIf(process.platform === "win32")("waits for no pipe and reads no device to its end", async () => {
  for (const file of written) {
    make(`pipe-${file}`, file, (path) => execFileSync("mkfifo", [path]));
    make(`device-${file}`, file, (path) => symlinkSync("/dev/zero", path));
  }
  make("pipe-step", "notes", (path) => {
    for (const name of ["step-000001.jsonl", "step-000001.bin", "evaluation-000001.jsonl"])
      execFileSync("mkfifo", [join(path, "../trajectories", name)]);
  });
  const reader = createReader({ folders: [runs], cacheDir: join(root, "cache") });
  const { rows, problems } = await reader.runs({});
  expect(problems).toEqual([]);
  expect(rows).toHaveLength(2 * written.length + 1);
  for (const { key } of rows) {
    await reader.run(key);
    await reader.evaluations(key);
    await reader.live(key);
    await reader.events(key);
    await reader.trajectories(key, {});
  }
  const problemsOf = async (key: string) => (await reader.run(key)).problems;
  expect(await problemsOf("pipe-config")).toEqual([
    { where: "config.json", message: "cannot be read: it is no plain file" },
  ]);
  expect(await problemsOf("pipe-metrics")).toEqual([
    { where: "metrics.jsonl", message: "cannot be read: it is no plain file" },
  ]);
  expect((await reader.trajectories("pipe-step", {})).problems[0]).toMatchObject({
    where: "trajectories/step-000001.jsonl",
  });
  await expect(reader.csv("pipe-metrics", undefined)).rejects.toMatchObject({
    status: 409,
    details: { code: "unreadable" },
  });
  await reader.changes();
  await reader.changes();
  await reader.close();
});

import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/tiny-model.ts";
import { settleFolder, temporaryFor } from "../durable.ts";
import { pathIn } from "./layout.ts";
import { holderOf, lockRun } from "./lock.ts";

describe("the lock of a run", () => {
  it("is held by one, named to others, and free again when released", async () => {
    const dir = await temporaryFolder();
    const lock = lockRun(dir, "started");
    expect(() => lockRun(dir, "resumed")).toThrow(`cannot be resumed: process ${process.pid} is running it`);
    expect(holderOf(dir)?.pid).toBe(process.pid);
    lock.release();
    expect(holderOf(dir)).toBeUndefined();
    lockRun(dir, "resumed").release();
    expect(existsSync(join(dir, "lock"))).toBe(false);
  });

  it("is taken over from a process that is gone, also where another one has its number now", async () => {
    const dir = await temporaryFolder();
    const child = spawn(process.execPath, ["-e", ""]);
    await new Promise((resolve) => child.on("exit", resolve));
    const put = (holder: object) => writeFileSync(join(dir, "lock"), JSON.stringify(holder));
    put({ pid: child.pid, host: hostname() });
    expect(holderOf(dir)).toBeUndefined();
    put({ pid: process.pid, host: hostname(), born: "another boot/1" });
    expect(holderOf(dir)).toBeUndefined();
    const lock = lockRun(dir, "resumed");
    expect(JSON.parse(readFileSync(join(dir, "lock"), "utf8"))).toMatchObject({ pid: process.pid });
    lock.release();
  });

  it("of another machine holds while its heartbeat does", async () => {
    const dir = await temporaryFolder();
    writeFileSync(join(dir, "lock"), JSON.stringify({ pid: 1, host: "elsewhere" }));
    expect(() => lockRun(dir, "resumed")).toThrow("process 1 on elsewhere is running it");
    const anHourAgo = new Date(Date.now() - 3_600_000);
    utimesSync(join(dir, "lock"), anHourAgo, anHourAgo);
    lockRun(dir, "resumed").release();
  });

  it("is taken over by one at a time, and given back by its holder alone", async () => {
    const dir = await temporaryFolder();
    const path = join(dir, "lock");
    const stale = JSON.stringify({ pid: 2 ** 30, host: hostname() });
    writeFileSync(path, stale);
    writeFileSync(join(dir, ".tmp-lock-taking"), JSON.stringify({ pid: process.ppid, host: hostname() }));
    expect(() => lockRun(dir, "resumed")).toThrow("could not be taken");
    expect(readFileSync(path, "utf8")).toBe(stale);
    writeFileSync(join(dir, ".tmp-lock-taking"), stale);
    const lock = lockRun(dir, "resumed");
    expect(existsSync(join(dir, ".tmp-lock-taking"))).toBe(false);
    const another = JSON.stringify({ pid: process.ppid, host: hostname() });
    writeFileSync(path, another);
    lock.release();
    expect(readFileSync(path, "utf8")).toBe(another);
  });

  it("that cannot be read belongs to nobody", async () => {
    const dir = await temporaryFolder();
    writeFileSync(join(dir, "lock"), "{");
    lockRun(dir, "resumed").release();
  });

  it("leaves nothing behind that clearing up does not know", async () => {
    const dir = await temporaryFolder();
    for (const path of [pathIn(dir, "lock"), pathIn(dir, "status")]) writeFileSync(temporaryFor(path), "{");
    writeFileSync(join(dir, ".tmp-lock-taking"), "{");
    settleFolder(dir);
    expect(readdirSync(dir)).toEqual([]);
  });
});

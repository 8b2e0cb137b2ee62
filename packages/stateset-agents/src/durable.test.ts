import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import { settleFolder, writeFolderAtomic } from "./durable.ts";

/** "once": the rename into place fails. "dead": from then on nothing reaches the disk any more, as after a kill. */
const disk = vi.hoisted(() => ({ failure: undefined as "once" | "dead" | undefined, broken: false }));

vi.mock("node:fs", async (original) => {
  const real = await original<typeof import("node:fs")>();
  const failed = () => Object.assign(new Error("EIO: i/o error"), { code: "EIO" });
  return {
    ...real,
    renameSync(from: string, to: string) {
      if (disk.failure && from.includes(".tmp-")) {
        disk.broken = disk.failure === "dead";
        throw failed();
      }
      if (disk.broken) throw failed();
      real.renameSync(from, to);
    },
    rmSync(...args: Parameters<typeof real.rmSync>) {
      if (disk.broken) throw failed();
      real.rmSync(...args);
    },
  };
});

const root = mkdtempSync(join(tmpdir(), "durable-"));
afterEach(() => {
  disk.failure = undefined;
  disk.broken = false;
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const write = (dir: string, text: string) =>
  writeFolderAtomic(dir, async (temporary) => writeFileSync(join(temporary, "a.txt"), text));
const read = (dir: string) => readFileSync(join(dir, "a.txt"), "utf8");

describe("writeFolderAtomic", () => {
  it("replaces a folder and leaves nothing else behind", async () => {
    const dir = join(root, "whole", "final");
    await write(dir, "first");
    await write(dir, "second");
    expect(read(dir)).toBe("second");
    expect(readdirSync(join(root, "whole"))).toEqual(["final"]);
  });

  it("keeps the old folder when the new one cannot be put in its place", async () => {
    const dir = join(root, "failing", "final");
    await write(dir, "first");
    disk.failure = "once";
    await expect(write(dir, "second")).rejects.toMatchObject({ code: "WRITE_FAILED" });
    expect(read(dir)).toBe("first");
    expect(readdirSync(join(root, "failing"))).toEqual(["final"]);
  });

  it("loses nothing when it is killed at the worst moment", async () => {
    const parent = join(root, "killed");
    const dir = join(parent, "final");
    await write(dir, "first");
    disk.failure = "dead";
    await expect(write(dir, "second")).rejects.toMatchObject({ code: "WRITE_FAILED" });
    expect(existsSync(dir)).toBe(false);
    disk.failure = undefined;
    disk.broken = false;
    settleFolder(parent);
    expect(read(dir)).toBe("first");
    expect(readdirSync(parent)).toEqual(["final"]);
  });
});

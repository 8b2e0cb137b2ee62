import { existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { createLineSink, type LineTarget, openTarget, retryMs } from "./line-sink.ts";

afterEach(() => vi.useRealTimers());

const lostLine = (count: number) => `lost ${count}\n`;

/** Takes so many bytes at a time while it works. */
function disk(atOnce = 1 << 20) {
  const state = { text: "", full: false, tries: 0, room: Number.POSITIVE_INFINITY };
  const target: LineTarget = {
    async write(bytes) {
      state.tries++;
      const taken = bytes.subarray(0, Math.min(atOnce, state.room));
      if (state.full || taken.length === 0) throw Object.assign(new Error("no space"), { code: "ENOSPC" });
      state.text += taken.toString("latin1");
      state.room -= taken.length;
      return taken.length;
    },
    close: async () => {},
  };
  return { state, target };
}

describe("createLineSink", () => {
  it("writes lines in order, also when the destination takes a few bytes at a time", async () => {
    const { state, target } = disk(3);
    const sink = createLineSink(target, lostLine);
    for (let i = 0; i < 50; i++) sink.write(`line ${i}\n`);
    await sink.flush();
    expect(state.text).toBe(Array.from({ length: 50 }, (_, i) => `line ${i}\n`).join(""));
  });

  it("goes on where a line was cut when there is room again", async () => {
    const { state, target } = disk(4);
    state.room = 10;
    const sink = createLineSink(target, lostLine);
    sink.write("first line\nsecond line\n");
    await sink.flush();
    expect(state.text).toBe("first line");
    sink.write("third line\n");
    state.room = Number.POSITIVE_INFINITY;
    await sink.flush();
    expect(state.text).toBe("first line\nsecond line\nthird line\n");
    expect(sink.lost).toBe(0);
  });

  it("tries a failed destination again by itself, at its pace and not at that of the lines", async () => {
    vi.useFakeTimers();
    const { state, target } = disk();
    state.full = true;
    const sink = createLineSink(target, lostLine);
    sink.write("a\n");
    await vi.advanceTimersByTimeAsync(1);
    for (let i = 0; i < 100; i++) sink.write("b\n");
    await vi.advanceTimersByTimeAsync(1);
    expect(state.tries).toBe(1);
    await vi.advanceTimersByTimeAsync(retryMs);
    expect(state.tries).toBe(2);
    state.full = false;
    await vi.advanceTimersByTimeAsync(retryMs);
    expect(state.text).toBe(`a\n${"b\n".repeat(100)}`);
  });

  it("keeps a bounded number of lines meanwhile, counts the rest, and says so when it writes again", async () => {
    const { state, target } = disk();
    state.full = true;
    const sink = createLineSink(target, lostLine);
    const line = `${"x".repeat(1023)}\n`;
    for (let i = 0; i < 5000; i++) sink.write(line);
    await sink.flush();
    expect(sink.lost).toBe(5000 - 4096);
    state.full = false;
    await sink.flush();
    expect(state.text).toBe(`${line.repeat(4096)}lost ${5000 - 4096}\n`);
    sink.write("after\n");
    await sink.flush();
    expect(state.text.endsWith("\nafter\n")).toBe(true);
    expect(state.text.match(/lost/g)).toHaveLength(1);
  });

  it("takes a line that is longer than all that may wait", async () => {
    const { state, target } = disk();
    const sink = createLineSink(target, lostLine);
    sink.write("x".repeat(5 << 20));
    await sink.flush();
    expect([state.text.length, sink.lost]).toEqual([5 << 20, 0]);
  });
});

describe("createLineSink at its end", () => {
  it("counts what could not be written to the last", async () => {
    const { state, target } = disk(4);
    state.room = 8;
    const sink = createLineSink(target, lostLine);
    for (const line of ["first\n", "second\n", "third\n"]) sink.write(line);
    await sink.close();
    expect([state.text, sink.lost]).toEqual(["first\nse", 2]);
  });
});

describe("openTarget", () => {
  it("appends to a file that only its owner may read, and opens it once its folder is there", async () => {
    const folder = join(temporaryFolder(), "logs");
    const sink = createLineSink(openTarget({ file: join(folder, "log") }), lostLine);
    sink.write("a\n");
    await sink.flush();
    mkdirSync(folder);
    sink.write("b\n");
    await sink.close();
    expect(readFileSync(join(folder, "log"), "utf8")).toBe("a\nb\n");
    expect(statSync(join(folder, "log")).mode & 0o077).toBe(0);
  });

  it.skipIf(!existsSync("/dev/full"))("outlives a disk that is full", async () => {
    const file = join(temporaryFolder(), "log");
    symlinkSync("/dev/full", file);
    const sink = createLineSink(openTarget({ file }), lostLine);
    sink.write("a\n");
    await sink.flush();
    rmSync(file);
    await sink.close();
    expect(readFileSync(file, "utf8")).toBe("a\n");
  });
});

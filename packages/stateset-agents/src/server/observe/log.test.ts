import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { StatesetError } from "../../error.ts";
import { served } from "../../test-support/served.ts";
import { createLog, type Log, type LogOptions } from "./log.ts";

afterEach(() => vi.useRealTimers());

/** What a log wrote, as text and as lines read back. */
async function written(options: LogOptions, write: (log: Log) => void) {
  const file = join(temporaryFolder(), "log");
  const log = await createLog({ ...options, destination: { file } });
  write(log);
  await log.close();
  const text = readFileSync(file, "utf8");
  expect(text === "" || text.endsWith("\n")).toBe(true);
  const lines = text.split("\n").slice(0, -1);
  return { text, lines: lines.map((line) => JSON.parse(line) as Record<string, unknown>) };
}

const key = "sk-ss-ab12-Zm9vYmFyYmF6cXV4Zm9vYmFy_-YmF6cXV4";

describe("createLog", () => {
  it("writes ids, sizes and timings of a request, one line each", async () => {
    const { lines } = await written({}, (log) => {
      log.served(served({ keyId: "ab12", firstTokenMs: 9.5, interTokenMs: [1, 2, 3] }));
      log.served(served({ status: 500, failed: true, errorCode: "server_error" }));
    });
    expect(lines[0]).toEqual({
      ...served({ keyId: "ab12", firstTokenMs: 9.5 }),
      level: "info",
      event: "served",
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/) as string,
    });
    expect(lines[1]).toMatchObject({ level: "error", status: 500, errorCode: "server_error" });
  });

  it("keeps what was said out, unless content is wanted", async () => {
    const said = { request: { messages: [{ content: "canary" }] }, response: "canary" };
    const fail = (log: Log) => {
      log.served(served(), said);
      log.event("failed", { error: new Error("reads canary\n    at canary (x:1:1)", { cause: new Error("canary") }) });
      const changed = new Error("now another");
      changed.stack = "Error: canary\n    at canary (x:1:1)\n    at real (y:1:1)";
      log.event("failed", { error: changed });
    };
    const quiet = await written({}, fail);
    expect(quiet.text).not.toContain("canary");
    expect(quiet.lines[1]).toMatchObject({
      event: "failed",
      error: { type: "Error", stack: expect.arrayContaining([expect.stringContaining("log.test.ts")]) as string[] },
    });
    const open = await written({ content: true }, fail);
    expect(open.lines[0]).toMatchObject(said);
    expect(open.lines[1]).toMatchObject({ error: { message: expect.stringContaining("reads canary") as string } });
  });

  it.each([
    ["a field", { note: `with ${key} in it` }],
    ["the name of a field", { [key]: 1 }],
    ["a nested list", { list: [[{ deep: key }]] }],
    ["an error's message", { error: new Error(`bad key ${key}`) }],
    ["an error's cause", { error: new Error("outer", { cause: new StatesetError("BUSY", key) }) }],
    ["an error's code", { error: Object.assign(new Error("x"), { code: key }) }],
    ["a stack", { error: Object.assign(new Error("x"), { stack: `Error: x\n    at ${key} (a:1:1)` }) }],
    ["a date's neighbour and an address", { at: new Date(0), url: new URL(`http://${key}@example.com/`) }],
    ["a header in any case", { headers: { Authorization: "Bearer abc", "X-API-Key": "abc", cookie: "s=abc" } }],
    ["a header in a text", { note: 'authorization: Bearer abc, "Authorization":"abc"' }],
    ["an address", { note: "https://me:abc@example.com" }],
    ["keys of other services", { note: "sk-proj-abc4567890123456 hf_abc4567890123456" }],
  ])("writes no key that is in %s", async (_, fields) => {
    const { text, lines } = await written({ content: true }, (log) => log.event("x", fields));
    expect(lines).toHaveLength(1);
    expect(text).not.toContain("Zm9v");
    expect(text).not.toMatch(/abc/);
  });

  it("hides what the configured patterns match, also where JSON would write it otherwise", async () => {
    const { text, lines } = await written({ redact: ["PIN-\\d+", 'a"b\nc'] }, (log) =>
      log.event("x", { note: 'PIN-1234 and PIN-5, a"b\nc', "PIN-77": 1 }),
    );
    expect(text).not.toContain("PIN");
    expect(lines[0]).toMatchObject({ note: "[redacted] and [redacted], [redacted]", "[redacted]": 1 });
    await expect(createLog({ redact: ["("] })).rejects.toThrow(/log: redact: .*Unterminated group/);
    await expect(createLog({ lvel: "info" } as LogOptions)).rejects.toThrow(/Unknown option "lvel" in log/);
  });

  it("lets nobody forge a line", async () => {
    const forged = '\r\n{"event":"forged"}\u0000\u001b[2J\u0085\u009b2J\u2028{"event":"forged"}\u2029\u007f';
    const { text, lines } = await written({}, (log) => log.event("x", { note: forged, [forged]: forged }));
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatchObject({ event: "x", note: forged, [forged]: forged });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: none of them may be there.
    expect(text.slice(0, -1)).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/);
  });

  it("cuts what is long, deep or wide, and survives what cannot be read", async () => {
    const circle: Record<string, unknown> = { bytes: new Uint8Array(1 << 20), big: 1n };
    circle.self = circle;
    const { text, lines } = await written({}, (log) => {
      log.event("circle", { circle });
      log.event("wide", { rows: Array.from({ length: 100 }, () => Array.from({ length: 100 }, () => ["x"])) });
      log.event("long", { note: "x".repeat(1 << 20) });
      log.event("hostile", {
        get note(): string {
          return "evaluated before it is given";
        },
        inner: Object.defineProperty({}, "note", {
          enumerable: true,
          get: () => {
            throw new Error("no");
          },
        }),
      });
    });
    expect(lines.map(({ event }) => event)).toEqual(["circle", "wide", "long", "hostile"]);
    expect(lines[0]).toMatchObject({ circle: { bytes: "[1048576 bytes]", big: "1" } });
    expect(lines[3]).toMatchObject({ unreadable: true });
    expect(text.length).toBeLessThan(30_000);
  });

  it("writes from its level on", async () => {
    const all = (log: Log) => {
      log.event("a", {}, "debug");
      log.served(served());
      log.event("b", {}, "warn");
      log.served(served({ status: 503, failed: true }));
    };
    const events = async (level: LogOptions["level"]) => (await written({ level }, all)).lines.length;
    expect([await events("debug"), await events("info"), await events("warn"), await events("error")]).toEqual([
      4, 3, 2, 1,
    ]);
    const silent = await createLog({ level: "silent", destination: { file: "/nowhere/log" } });
    all(silent);
    await silent.close();
  });

  it("takes no harm from a clock that is set back", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    vi.setSystemTime("2026-05-01T00:00:00Z");
    const { lines } = await written({}, (log) => {
      log.served(served({ durationMs: 12 }));
      vi.setSystemTime("2020-01-01T00:00:00Z");
      log.served(served({ durationMs: 13 }));
    });
    expect(lines.map(({ time, durationMs }) => [time, durationMs])).toEqual([
      ["2026-05-01T00:00:00.000Z", 12],
      ["2020-01-01T00:00:00.000Z", 13],
    ]);
  });

  it("goes on when its destination fails, and says how many lines are missing once it is back", async () => {
    const folder = join(temporaryFolder(), "logs");
    const log = await createLog({ destination: { file: join(folder, "log") } });
    const note = "x".repeat(1900);
    for (let i = 0; i < 3000; i++) log.event("x", { i, note });
    await log.flush();
    expect(log.lost).toBeGreaterThan(500);
    mkdirSync(folder);
    await log.close();
    const lines = readFileSync(join(folder, "log"), "utf8").trim().split("\n");
    expect(lines).toHaveLength(3000 - log.lost + 1);
    expect(JSON.parse(lines.at(-1)!)).toMatchObject({ event: "log-lost", level: "warn", lines: log.lost });
  });
});

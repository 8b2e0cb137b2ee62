import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { loadScenarios } from "../environment/load-scenarios.ts";
import { loadPreferencePairs } from "../preference/pair.ts";
import { readChats, readConversations, writeChats } from "./jsonl.ts";
import type { ReadOptions, SkippedLines } from "./read-entries.ts";

const dir = temporaryFolder();
afterEach(() => vi.restoreAllMocks());

const file = (...lines: string[]) => {
  const path = join(dir, "data.jsonl");
  writeFileSync(path, lines.join("\n"));
  return path;
};
const all = async <T>(items: AsyncIterable<T> | Promise<T[]>) => {
  const list: T[] = [];
  for await (const item of await items) list.push(item);
  return list;
};

const chat = '{"messages":[{"role":"user","content":"a"}]}';
const readers: [
  string,
  (path: string, options?: ReadOptions) => AsyncIterable<unknown> | Promise<unknown[]>,
  string,
][] = [
  ["readChats", readChats, chat],
  ["readConversations", readConversations, chat],
  ["loadPreferencePairs", loadPreferencePairs, '{"prompt":"a","chosen":"b","rejected":"c"}'],
  ["loadScenarios", loadScenarios, '{"prompt":"a"}'],
];

describe.each(readers)("%s", (name, read, good) => {
  it("stops at the first bad line, and names it", async () => {
    const path = file(good, "", "{}", good);
    await expect(all(read(path))).rejects.toThrow(`${path}, line 3`);
  });

  it("goes on with skipBad, and says once at the end how much was left out and why", async () => {
    const path = file(good, "{", good, "", "{}", "[]", "5", good);
    const told: SkippedLines[] = [];
    expect(await all(read(path, { skipBad: true, onSkipped: (skipped) => told.push(skipped) }))).toHaveLength(
      name.startsWith("read") ? 4 : 3,
    );
    const [{ problems, ...counts }, ...more] = told as [SkippedLines];
    expect(more).toEqual([]);
    // An empty list of messages is a conversation, but neither a pair nor a scenario.
    expect(counts).toEqual({ path, skipped: name.startsWith("read") ? 3 : 4, of: 7 });
    expect(problems[0]).toContain(`${path}, line 2: not valid JSON`);
    expect(problems[1]).toContain(`${path}, line 5`);
    expect(problems).toHaveLength(3);
  });

  it("warns of it where nobody listens", async () => {
    const warn = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
    const path = file(good, "{}");
    await all(read(path, { skipBad: true }));
    expect(warn.mock.calls).toEqual([
      [expect.stringContaining(`1 of 2 entries of ${path} were left out: ${path}, line 2`), expect.anything()],
    ]);
  });

  it("does not call nothing at all a success, nor a file that is not there", async () => {
    const path = file("{}", "{");
    await expect(all(read(path, { skipBad: true }))).rejects.toThrow(`Nothing in ${path} can be read. ${path}, line 1`);
    await expect(all(read(join(dir, "absent.jsonl"), { skipBad: true }))).rejects.toThrow("Could not read");
  });

  it("names an option it does not know", async () => {
    const options = { skipbad: true } as ReadOptions;
    await expect(all(read(file(good), options))).rejects.toThrow(
      `Unknown option "skipbad" in ${name}(). Did you mean "skipBad"?`,
    );
  });
});

describe("lines", () => {
  it("end at line feeds alone: other separators may stand in a string", async () => {
    const path = join(dir, "separators.jsonl");
    const chats = ["\u2028", "a\u2029b", "\u0085", "\r"].map((content) => ({
      messages: [{ role: "user" as const, content }],
    }));
    await writeChats(path, chats);
    expect(await all(readChats(path))).toEqual(chats);
  });

  it("may be longer than what is read at a time, and hold characters that it cuts", async () => {
    const path = join(dir, "long.jsonl");
    const chats = Array.from({ length: 4 }, (_, i) => ({
      messages: [{ role: "user" as const, content: "x".repeat(i) + "é😀\n".repeat(60_000) }],
    }));
    await writeChats(path, chats);
    expect(await all(readChats(path))).toEqual(chats);
  });
});

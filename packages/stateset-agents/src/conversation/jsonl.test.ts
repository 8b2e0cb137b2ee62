import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import type { ChatRecord } from "./chat-layouts.ts";
import { readChats, writeChats } from "./jsonl.ts";
import type { Message } from "./message.ts";

const dir = mkdtempSync(join(tmpdir(), "jsonl-"));
afterAll(() => rmSync(dir, { recursive: true }));

const all = async (path: string) => {
  const chats: ChatRecord[] = [];
  for await (const chat of readChats(path)) chats.push(chat);
  return chats;
};
const file = (text: string) => {
  const path = join(dir, "chats.jsonl");
  writeFileSync(path, text);
  return path;
};

describe("chat files", () => {
  it("come back as they were written, whatever the text holds", async () => {
    const message = fc.record(
      {
        role: fc.constantFrom("system", "user", "assistant"),
        content: fc.string({ unit: "binary" }),
        name: fc.string(),
      },
      { requiredKeys: ["role", "content"] },
    ) as fc.Arbitrary<Message>;
    const path = join(dir, "nested", "round-trip.jsonl");
    await fc.assert(
      fc.asyncProperty(fc.array(fc.record({ id: fc.string(), messages: fc.array(message) })), async (chats) => {
        expect(await writeChats(path, chats)).toEqual({ count: chats.length });
        expect(await all(path)).toEqual(chats);
      }),
      { numRuns: 12 },
    );
  });

  it("keep tool calls, and read OpenAI's null content beside them", async () => {
    const calls = [{ id: "c1", type: "function", function: { name: "find", arguments: "{}" } }];
    const path = file(
      `${JSON.stringify({
        messages: [
          { role: "assistant", content: null, tool_calls: calls },
          { role: "tool", content: "found", tool_call_id: "c1" },
        ],
      })}\n`,
    );
    expect((await all(path))[0]!.messages[0]).toEqual({ role: "assistant", content: "", tool_calls: calls });
  });

  it("may have a byte order mark, Windows line ends, empty lines and bare lists", async () => {
    const path = file('\uFEFF{"messages":[{"role":"user","content":"a"}]}\r\n\r\n[{"role":"user","content":"b"}]');
    expect((await all(path)).map((chat) => chat.messages[0]!.content)).toEqual(["a", "b"]);
  });

  it("may hold content in text parts, and only in text parts", async () => {
    const parts = (...types: string[]) => types.map((type) => ({ type, text: "a" }));
    const line = (content: unknown) => JSON.stringify({ messages: [{ role: "user", content }] });
    expect((await all(file(line(parts("text", "text")))))[0]!.messages[0]!.content).toBe("aa");
    await expect(all(file(line(parts("text", "image_url"))))).rejects.toThrow("content that is a list");
  });

  it("name file and line when a line is not JSON", async () => {
    const path = file('{"messages":[]}\n\n{"messages":[}\n');
    await expect(all(path)).rejects.toMatchObject({
      code: "INVALID_DATA",
      message: expect.stringContaining(`${path}, line 3`),
    });
  });

  it.each([
    ['{"prompt":"x"}', 'line 1: no "messages". Each line is {"messages"'],
    ['"hi"', "line 1: not an object"],
    ['{"messages":{}}', "expected a list of messages"],
    ['{"messages":["hi"]}', "message 1 is a string, not an object"],
    ['{"messages":[{"role":"bot","content":""}]}', 'message 1 has role "bot". Use one of system'],
    ['{"messages":[{"role":"user"}]}', "content that is missing"],
    ['{"messages":[{"role":"user","content":["x"]}]}', "content that is a list"],
    ['{"messages":[{"role":"user","content":"","tool_calls":[]}]}', "Only assistant messages can call tools"],
    ['{"messages":[{"role":"assistant","content":"","tool_calls":[{"id":"x"}]}]}', "malformed tool_calls"],
    ['{"messages":[{"role":"tool","content":"x"}]}', "without tool_call_id"],
  ])("say what is wrong with %s", async (line, message) => {
    await expect(all(file(line))).rejects.toThrow(message);
  });

  it("that do not exist are an error, not an empty list", async () => {
    await expect(all(join(dir, "absent.jsonl"))).rejects.toMatchObject({ code: "INVALID_DATA" });
  });

  it("are left as they were when writing fails half way", async () => {
    const path = file("before\n");
    async function* failing(): AsyncGenerator<ChatRecord> {
      yield { messages: [] };
      throw new Error("source broke");
    }
    await expect(writeChats(path, failing())).rejects.toMatchObject({ code: "WRITE_FAILED" });
    expect(readFileSync(path, "utf8")).toBe("before\n");
    expect(existsSync(`${path}.${process.pid}.tmp`)).toBe(false);
  });
});

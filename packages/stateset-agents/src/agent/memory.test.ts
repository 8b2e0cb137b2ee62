import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import type { Message } from "../conversation/message.ts";
import { ConversationMemory } from "./memory.ts";

const said = (...contents: string[]): Message[] => contents.map((content) => ({ role: "user", content }));

describe("ConversationMemory", () => {
  it("never holds more than maxTurns, and counts what it forgot", () => {
    const memory = new ConversationMemory({ maxTurns: 4, summarizeAbove: 4 });
    memory.add("a", ...said("1", "2", "3", "4", "5", "6"));
    expect(memory.turns.map((turn) => turn.content)).toEqual(["3", "4", "5", "6"]);
    expect(memory.forgotten).toBe(2);
  });

  it("sums up the old and keeps the new word for word, also what is said meanwhile", async () => {
    const memory = new ConversationMemory({ maxTurns: 10, summarizeAbove: 4 });
    memory.add("a", ...said("1", "2", "3", "4"));
    const summarize = async (messages: readonly Message[]) => {
      memory.add("a", ...said("late"));
      return messages.map((message) => message.content).join("+");
    };
    await memory.condense(summarize);
    expect(memory.summary).toBe("");
    memory.add("a", ...said("5"));
    await memory.condense(summarize);
    expect(memory.summary).toBe("1+2+3");
    expect(memory.turns.map((turn) => turn.content)).toEqual(["4", "5", "late"]);
    memory.add("a", ...said("6", "7"));
    await memory.condense(async (messages) => messages.map((message) => message.content).join("+"));
    expect(memory.summary).toBe("1+2+3+4+5+late");
    expect(memory.forgotten).toBe(0);
  });

  it("keeps its turns when summing up fails", async () => {
    const memory = new ConversationMemory({ maxTurns: 4, summarizeAbove: 2 });
    memory.add("a", ...said("1", "2", "3"));
    await expect(memory.condense(() => Promise.reject(new Error("model gone")))).rejects.toThrow("model gone");
    expect(memory.turns).toHaveLength(3);
    await memory.condense(async () => "ok");
    expect(memory.summary).toBe("ok");
  });

  it("recalls other conversations, not the current one", () => {
    const memory = new ConversationMemory({ recallTurns: 2 });
    memory.add("a", ...said("my name is Ann", "bye"));
    expect(memory.recall("a")).toBe("");
    expect(memory.recall("b")).toContain("user: my name is Ann\nuser: bye");
  });

  it("survives a process: save and load", async () => {
    const path = join(temporaryFolder(), "deep", "memory.json");
    const memory = new ConversationMemory({ maxTurns: 6, summarizeAbove: 2 });
    memory.add("a", ...said("1", "2", "3"));
    await memory.condense(async () => "sum");
    await memory.save(path);
    expect((await ConversationMemory.load(path)).toJSON()).toEqual(memory.toJSON());
    writeFileSync(path, '{"version":1}');
    await expect(ConversationMemory.load(path)).rejects.toMatchObject({
      code: "INVALID_DATA",
      message: expect.stringContaining(path),
    });
  });

  it("refuses options that would forget before summing up", () => {
    expect(() => new ConversationMemory({ maxTurns: 10, summarizeAbove: 20 })).toThrow("Lower summarizeAbove");
  });
});

import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { tableLearner } from "../test-support/table-learners.ts";
import { readNotes, writeNotes } from "./notes.ts";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "notes-"));
});
afterEach(() => rmSync(dir, { recursive: true }));

describe("notes of a run", () => {
  it("keep what is not changed, and each tag once", () => {
    expect(readNotes(dir)).toEqual({ version: 1, tags: [], note: "", archived: false, changedAt: 0 });
    const first = writeNotes(dir, { tags: ["best", "paper", "best"] });
    expect(first.tags).toEqual(["best", "paper"]);
    const second = writeNotes(dir, { note: "reward went up for the wrong reason" });
    expect(second).toMatchObject({ tags: ["best", "paper"], archived: false });
    expect(second.changedAt).toBeGreaterThan(first.changedAt);
    writeNotes(dir, { archived: true });
    expect(readNotes(dir)).toMatchObject({ ...second, archived: true, changedAt: expect.any(Number) });
    expect(readdirSync(dir)).toEqual(["notes.json"]);
  });

  it("refuse what no list could show", () => {
    for (const [change, message] of [
      [{ tags: ["a", " "] }, '"" has 0'],
      [{ tags: ["x".repeat(51)] }, "has 51"],
      [{ tags: Array.from({ length: 51 }, (_, i) => `${i}`) }, "50 tags at most, not 51"],
      [{ note: "x".repeat(10_001) }, "10000 characters at most, not 10001"],
    ] as const) {
      expect(() => writeNotes(dir, change as { tags?: string[] })).toThrow(message);
    }
    expect(readdirSync(dir)).toEqual([]);
  });

  it.each([
    ["{", "cannot be read"],
    ["[1]", "it holds no object"],
    ["null", "it holds no object"],
    ['{"version":2,"tags":["a"],"colour":3}', "it is of version 2, not 1"],
    ['{"version":1,"tags":"a","archived":1}', '"tags", "archived" is not what it should be'],
  ])("that are damaged (%s) say so and are in nobody's way", (text, problem) => {
    writeFileSync(join(dir, "notes.json"), text);
    expect(readNotes(dir)).toMatchObject({ note: "", archived: false, problem: expect.stringContaining(problem) });
    expect(writeNotes(dir, { note: "again" }).note).toBe("again");
    expect(readNotes(dir).problem).toBeUndefined();
    expect(JSON.parse(readFileSync(join(dir, "notes.json"), "utf8"))).toMatchObject({ version: 1, note: "again" });
  });

  it("stay with a run that is taken up again, and do not go with one that is split off", async () => {
    const run = join(dir, "run");
    await tableLearner("sft").run({ dir: run, epochs: 2 });
    const notes = writeNotes(run, { tags: ["best"], note: "looks right" });
    await tableLearner("sft").run({ resumeFrom: run, epochs: 3 });
    expect(readNotes(run)).toEqual(notes);
    await tableLearner("sft").run({ resumeFrom: run, dir: join(dir, "split"), epochs: 4 });
    expect(readNotes(join(dir, "split")).changedAt).toBe(0);
  });
});

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import type { TextEntry } from "../conversation/read-lines.ts";
import { readJsonItems } from "./json-items.ts";

const dir = temporaryFolder();

async function items(text: string): Promise<TextEntry[]> {
  const path = join(dir, "list.json");
  writeFileSync(path, text);
  const found: TextEntry[] = [];
  for await (const item of readJsonItems(path, "scenarios")) found.push(item);
  return found;
}
const values = async (text: string) => (await items(text)).map((item) => JSON.parse(item.text));

describe("the items of a JSON file", () => {
  it("are those JSON.parse finds, however it is printed", async () => {
    const json = fc.array(fc.jsonValue({ maxDepth: 3 }), { maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(json, fc.constantFrom(0, 2), fc.boolean(), async (list, indent, wrapped) => {
        const value = wrapped ? { before: [1, "scenarios"], scenarios: list, after: { scenarios: [5] } } : list;
        expect(await values(JSON.stringify(value, undefined, indent))).toEqual(JSON.parse(JSON.stringify(list)));
      }),
      { numRuns: 60 },
    );
  });

  it("come with the line they begin on", async () => {
    const text = '\uFEFF{\n "scenarios" : [\n\n  {"a":\n"]"}, 5,\n\n\n[1,\n2]\n]}';
    expect((await items(text)).map(({ line }) => line)).toEqual([4, 5, 8]);
  });

  it("may be cut by the pieces a file is read in", async () => {
    const list = Array.from({ length: 40 }, (_, i) => ({ id: i, text: `é"\\[{😀`.repeat(3000 + i) }));
    expect(await values(JSON.stringify({ scenarios: list }))).toEqual(list);
  });

  it("are found behind tens of thousands of other lists, whose keys a piece may cut", async () => {
    const others = Array.from({ length: 50_000 }, (_, i) => [`scenarios${i}`, [i, "scenarios"]]);
    expect(await values(JSON.stringify({ ...Object.fromEntries(others), scenarios: [1] }))).toEqual([1]);
    for (let cut = 0; cut < 12; cut++) {
      const before = "x".repeat(65_536 - '{"before":"","'.length - cut);
      expect(await values(JSON.stringify({ before, scenarios: [cut] }))).toEqual([cut]);
    }
  });

  it("are not looked for in lines that are values of their own, of which the second is named", async () => {
    const lines = Array.from({ length: 50_000 }, (_, i) => JSON.stringify({ id: i, userResponses: ["hi"] }));
    const refused = items(lines.join("\n"));
    await expect(refused).rejects.toThrow("line 2: another value begins here, and a JSON file holds one.");
    await expect(refused).rejects.toMatchObject({ hint: expect.stringContaining("name the file .jsonl") as string });
  });

  it.each([
    ['[\n{"a": 1},\n{"b": [2}\n]', "line 3: what begins here has no end"],
    ['[\n{"a": "1}\n]', "line 2: what begins here has no end"],
    ["[", "line 1: what begins here has no end"],
    ["[1]\n]", "line 2: not valid JSON"],
    ["[1]\n[2]", "line 2: another value begins here"],
    ['{"scenarios": [1]}\n{"scenarios": [2]}', "line 2: another value begins here"],
    ['{"scenarios": [1]', "line 1: not valid JSON"],
    ['{"scenarios": [1]]', "line 1: not valid JSON"],
    ["", "not valid JSON"],
    ['{"scenario": [1]}', "line 1: expected a list of scenarios"],
    ['{"a": {"scenarios": [1]}}', "line 1: expected a list of scenarios"],
    ['{"a": {"b": 1, "scenarios": [1]}}', "line 1: expected a list of scenarios"],
    ['"scenarios"', "line 1: expected a list of scenarios"],
  ])("are refused in %j", async (text, message) => {
    await expect(items(text)).rejects.toThrow(message);
  });
});

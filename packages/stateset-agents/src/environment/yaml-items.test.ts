import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { temporaryFolder } from "../../test/temporary-folder.ts";
import { readYamlItems, type YamlItem } from "./yaml-items.ts";

const dir = temporaryFolder();

async function items(text: string): Promise<YamlItem[]> {
  const path = join(dir, "list.yaml");
  writeFileSync(path, text);
  const found: YamlItem[] = [];
  for await (const item of readYamlItems(path, "scenarios")) found.push(item);
  return found;
}

/** More than one part; every item has a list of its own and texts of several lines. */
const many = (indent: string, count = 603) =>
  Array.from({ length: count }, (_, i) =>
    [`- id: s${i}`, "  list:", "  - a", `  - "b${i}`, '    - c"', "  text: |", "    - x", "", "    y"]
      .map((line) => (line === "" ? "" : `${indent}${line}`))
      .join("\n"),
  ).join("\n");

describe("the items of a YAML file", () => {
  it.each([
    ["a list", many("")],
    ["a list with a head", `# Scenarios\n---\n\n${many("")}\n# end\n`],
    ["a list under its key", `scenarios: # all of them\n\n  # the first\n${many("  ")}\n`],
    ["a list under its key at no indentation", `scenarios:\n${many("")}\n`],
    ["a list between other keys", `a: 1\nscenarios:\n${many("  ")}\nb: 2\n`],
    ["a list before another key", `scenarios:\n${many("  ")}\nb: 2\n`],
    ["a list with an alias of its first item", `- &first\n  id: z\n${many("")}\n- *first\n`],
    ["a list in brackets", '[{id: a}, "- b"]'],
  ])("of %s are those a parser finds in the whole", async (_, text) => {
    const whole = parse(text) as unknown[] | { scenarios: unknown[] };
    const found = await items(text);
    expect(found.map(({ value }) => value)).toEqual(Array.isArray(whole) ? whole : whole.scenarios);
    const lines = text.split("\n");
    for (const { line, value } of found) {
      const { id } = value as { id?: string };
      if (id?.startsWith("s")) expect(lines[line - 1]).toMatch(new RegExp(`^ *- id: ${id}$`));
    }
  });

  it.each([
    [`${many("")}\n- id: a\n  b: [1\n`, /line 54\d\d: /],
    ["hello", /line 1: expected a list of scenarios/],
    ["", /line 1: expected a list of scenarios/],
  ])("are refused where they are wrong", async (text, message) => {
    await expect(items(text)).rejects.toThrow(message);
  });
});

import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const src = fileURLToPath(new URL("../src/", import.meta.url));
const sheets = readdirSync(src, { recursive: true, encoding: "utf8" })
  .map((name) => name.replaceAll("\\", "/"))
  .filter((name) => name.endsWith(".css"));

/** The class that a rule begins with: what is styled further inside of it is its own matter. */
function firstClasses(css: string): Set<string> {
  const selectors = css
    .replace(/\/\*.*?\*\//gs, "")
    .replace(/\{[^{}]*\}/g, ";")
    .split(/[;{},]/)
    .map((selector) => selector.trim());
  return new Set(selectors.flatMap((selector) => /^\.([\w-]+)/.exec(selector)?.[1] ?? []));
}

it("styles no class in two files: those of a view stay when another one is gone to", () => {
  const owners = new Map<string, string[]>();
  for (const sheet of sheets) {
    for (const name of firstClasses(readFileSync(src + sheet, "utf8"))) {
      owners.set(name, [...(owners.get(name) ?? []), sheet]);
    }
  }
  expect([...owners].filter(([, files]) => files.length > 1)).toEqual([]);
});

it("says every colour in one file", () => {
  const others = sheets.filter((sheet) => sheet !== "style/colours.css");
  const found = others.flatMap((sheet) => {
    const colours = readFileSync(src + sheet, "utf8").match(/#[0-9a-f]{3,8}\b|\b(?:rgb|hsl|oklch)a?\([^)]*\)/gi) ?? [];
    return colours.map((colour) => `${sheet}: ${colour}`);
  });
  expect(found).toEqual([]);
});

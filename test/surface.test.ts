/**
 * Pins what users can import and how it is typed, so that it changes only on purpose: `npx vitest run test/surface.test.ts -u` accepts a change.
 * Reads the built package: `node scripts/prepare.mjs` first.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { doors, exportsOf, importName, missingTypes, surfaces } from "./surface/declarations.ts";

const manifest = (name: string) =>
  JSON.parse(readFileSync(fileURLToPath(new URL(`../packages/${name}/package.json`, import.meta.url)), "utf8"));

describe.each(doors)("the door %s", (door) => {
  it("declares what is pinned", async () => {
    await expect(surfaces.get(door)!).toMatchFileSnapshot(`./surface/${door}.d.txt`);
  });

  it("offers the types in its signatures, or the main door does", () => {
    // Aliases that their own files keep to themselves, of types that are offered.
    const aliases = ["AnyPair", "ChatLine", "Recordable", "Stored", "Vector"];
    expect(missingTypes(door).filter((found) => !aliases.includes(found.replace(/^.* /, "")))).toEqual([]);
  });
});

it("keeps the main door narrow", () => {
  expect(exportsOf.get("index")!.size).toBeLessThanOrEqual(140);
});

it("lets a value live in one door beside the main one and the old names", () => {
  const homes = new Map<string, string[]>();
  for (const door of doors.filter((name) => name !== "index" && name !== "compat")) {
    for (const [name, symbol] of exportsOf.get(door)!) {
      if (symbol.valueDeclaration) homes.set(name, [...(homes.get(name) ?? []), importName(door)]);
    }
  }
  expect([...homes].filter(([, of]) => of.length > 1)).toEqual([]);
});

it("still knows in /compat every name that the one door had", () => {
  const old = readFileSync(new URL("./surface/one-door.txt", import.meta.url), "utf8")
    .trim()
    .split("\n");
  expect(old.filter((name) => !exportsOf.get("compat")!.has(name))).toEqual([]);
});

it("publishes these packages, entry points and commands", () => {
  const packages = ["stateset-agents", "engine", "starter-model"].map(manifest);
  expect(
    packages.map(({ name, exports, bin }) => ({ name, exports: Object.keys(exports), bin: Object.keys(bin ?? {}) })),
  ).toEqual([
    {
      name: "stateset-agents",
      exports: [
        ".",
        "./policy",
        "./algorithms",
        "./rewards",
        "./tools",
        "./server",
        "./telemetry",
        "./testing",
        "./compat",
        "./package.json",
      ],
      bin: ["stateset-agents", "grpo-train", "grpo-evaluate", "grpo-serve"],
    },
    { name: "@stateset-agents/engine", exports: [".", "./package.json"], bin: [] },
    { name: "@stateset-agents/starter-model", exports: [".", "./package.json"], bin: [] },
  ]);
});

/** Pins what users can import, so that it changes only on purpose: `npx vitest run test/surface.test.ts -u` accepts a change. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const manifest = (name: string) =>
  JSON.parse(readFileSync(fileURLToPath(new URL(`../packages/${name}/package.json`, import.meta.url)), "utf8"));

it("exports these values from stateset-agents", async () => {
  const library = await import("stateset-agents");
  await expect(`${Object.keys(library).sort().join("\n")}\n`).toMatchFileSnapshot("./surface.txt");
});

it("publishes these packages, entry points and commands", () => {
  const packages = ["stateset-agents", "engine", "starter-model"].map(manifest);
  expect(
    packages.map(({ name, exports, bin }) => ({ name, exports: Object.keys(exports), bin: Object.keys(bin ?? {}) })),
  ).toEqual([
    {
      name: "stateset-agents",
      exports: [".", "./package.json"],
      bin: ["stateset-agents", "grpo-train", "grpo-evaluate"],
    },
    { name: "@stateset-agents/engine", exports: [".", "./package.json"], bin: [] },
    { name: "@stateset-agents/starter-model", exports: [".", "./package.json"], bin: [] },
  ]);
});

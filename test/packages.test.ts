/** What package.json says of every package that is published. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { workerRequirements } from "../packages/stateset-agents/src/cli/setup-gpu/requirements.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const platforms = readdirSync(join(root, "packages/engine/npm"), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => `packages/engine/npm/${name}`);
const folders = ["packages/stateset-agents", "packages/engine", "packages/starter-model", ...platforms];
const manifestOf = (folder: string) => JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"));

it.each(folders)("%s says what it is and where it comes from", (folder) => {
  const manifest = manifestOf(folder);
  expect(manifest).toMatchObject({
    description: expect.stringMatching(/\w/),
    license: expect.stringMatching(/\w/),
    homepage: expect.stringMatching(/^https:/),
    bugs: { url: expect.stringMatching(/^https:/) },
    repository: { type: "git", directory: expect.any(String) },
  });
  expect(existsSync(join(root, manifest.repository.directory))).toBe(true);
  if (!manifest.exports) return;
  expect(manifest.sideEffects).toBeDefined();
  expect(manifest.keywords.length).toBeGreaterThan(0);
});

it("has a worker of the same version, which says the least versions of what it needs", () => {
  const worker = readFileSync(join(root, "python/stateset_agents_worker/__init__.py"), "utf8");
  expect(/__version__ = "(.*)"/.exec(worker)![1]).toBe(manifestOf("packages/stateset-agents").version);
  const { packages } = workerRequirements(join(root, "python"));
  expect(packages.map(({ name }) => name)).toEqual(["torch", "transformers", "peft"]);
});

it("does nothing when a door is opened, as sideEffects says: no listener, no global, no variable", async () => {
  const around = () => ({
    listeners: Object.fromEntries(process.eventNames().map((name) => [String(name), process.listenerCount(name)])),
    // Zod keeps its registry in one, whoever loads it.
    globals: Object.getOwnPropertyNames(globalThis).filter((name) => !name.startsWith("__zod")),
    env: { ...process.env },
  });
  const doors = readdirSync(join(root, "packages/stateset-agents/src/doors"))
    .filter((name) => /^[a-z]+\.ts$/.test(name) && name !== "moved.ts")
    .map((name) => `../packages/stateset-agents/src/doors/${name}`);
  const modules = ["../packages/stateset-agents/src/index.ts", ...doors, "../packages/engine/src/index.ts"];
  const before = around();
  for (const path of modules) await import(path);
  expect(around()).toEqual(before);
  expect(modules.length).toBe(10);
});

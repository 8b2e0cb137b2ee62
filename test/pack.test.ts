/** What users get is the packed artifact: pack every package, install the tarballs into an empty project, run the README's example there. */
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const work = mkdtempSync(join(tmpdir(), "stateset-pack-"));
const project = join(work, "project");
const env = { ...process.env, NO_COLOR: "1", CI: "1" };

const inProject = (command: string, ...args: string[]) =>
  execFileSync(command, args, { cwd: project, encoding: "utf8", env, stdio: ["ignore", "pipe", "pipe"] });

describe("the packed packages", () => {
  beforeAll(() => {
    execFileSync("node", [join(root, "scripts/pack.mjs"), work], { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
    mkdirSync(project);
    writeFileSync(
      join(project, "package.json"),
      JSON.stringify({ name: "user-project", private: true, type: "module" }),
    );
    const tarballs = readdirSync(work)
      .filter((name) => name.endsWith(".tgz"))
      .map((name) => join(work, name));
    inProject("npm", "install", "--no-audit", "--no-fund", "--prefer-offline", ...tarballs);
  }, 180_000);
  afterAll(() => rmSync(work, { recursive: true, force: true }));

  it("run the README's example", () => {
    const readme = readFileSync(join(root, "README.md"), "utf8");
    const example = readme.match(/```ts\n([\s\S]*?)\n```/)![1]!;
    // The example is plain enough to run as JavaScript: installing a TypeScript runner is not part of the claim.
    writeFileSync(join(project, "example.mjs"), example);
    expect(inProject("node", "example.mjs")).toMatch(/\S/);
  }, 240_000);

  it("bring a working command line", () => {
    const { version } = JSON.parse(readFileSync(join(root, "packages/stateset-agents/package.json"), "utf8"));
    expect(inProject("npx", "stateset-agents", "version")).toContain(version);
  }, 60_000);

  it("contain no tests, sources of other packages or build leftovers", () => {
    const files = readdirSync(join(project, "node_modules/stateset-agents"), { recursive: true }).map(String);
    expect(files.filter((file) => /\.test\.|(^|\/)src\//.test(file) && !file.includes("node_modules"))).toEqual([]);
  });
});

/** Every file in examples/ runs, for one step, and says what came of it. */
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const examples = readdirSync(join(root, "examples")).filter((name) => name.endsWith(".ts"));

function run(name: string, steps: string) {
  const args = ["--import", "tsx", join("examples", name), steps];
  return spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
}

describe("examples", () => {
  it.each(examples)(
    "%s runs",
    (name) => {
      const { status, stdout, stderr } = run(name, "1");
      expect(status, stderr).toBe(0);
      expect(stdout).toContain("step 1: reward");
    },
    240_000,
  );

  it.each(examples)(
    "%s says what is wrong with its number of steps, before it does anything",
    (name) => {
      const { status, stdout, stderr } = run(name, "abc");
      expect([status, stdout]).toEqual([2, ""]);
      expect(stderr).toMatch(/^"abc" is no number of steps\. Give a whole number, such as \d+\.\n$/);
    },
    60_000,
  );
});

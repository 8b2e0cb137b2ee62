/** Every file in examples/ runs, for one step, and says what came of it. */
import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = fileURLToPath(new URL("..", import.meta.url));
const examples = readdirSync(join(root, "examples")).filter((name) => name.endsWith(".ts"));

describe("examples", () => {
  it.each(examples)(
    "%s runs",
    (name) => {
      const args = ["--import", "tsx", join("examples", name), "1"];
      const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: "utf8" });
      expect(status, stderr).toBe(0);
      expect(stdout).toContain("step 1: reward");
    },
    240_000,
  );
});

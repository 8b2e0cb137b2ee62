/** What takes too long for every day: the adversary of the heuristic rewards with twenty times the tries, 100,000 constrained calls. */
import { spawnSync } from "node:child_process";

const { status } = spawnSync("npx", ["vitest", "run", "adversary", "native/constraint", ...process.argv.slice(2)], {
  stdio: "inherit",
  shell: process.platform === "win32",
  env: { ...process.env, STATESET_SOAK: "1" },
});
process.exit(status ?? 1);

/**
 * What takes too long for every day: the adversary of the heuristic rewards with twenty times the tries, 10,000 damaged calls of every
 * format that must go on as one chain, 10,000 episodes that must leave nothing in memory, 100,000 constrained calls that must be
 * valid, the answers to 500 random schemas too; a server under 500 streams for ten minutes, one that is killed 40 times, one that is
 * sent 100,000 mutated requests; runs of every learner that are killed ten times; with STATESET_PYTHON, a hundred random orders and
 * 1,000 passes of the torch engine, runs on it whose processes are killed 50 times, and the demo on it with both signs of its reward.
 * Arguments go to vitest: `npm run soak -- one-chain` runs that alone.
 */
import { spawnSync } from "node:child_process";

const given = process.argv.slice(2);
const files =
  given.length > 0
    ? given
    : [
        ...["adversary", "one-chain", "tool-memory", "native/constraint", "any-schema", "checkpoint/kill"],
        ...["server-load", "server-kill", "server-security", "torch-passes", "torch-kill", "torch-demo"],
      ];
const { status } = spawnSync("npx", ["vitest", "run", ...files], {
  stdio: "inherit",
  shell: process.platform === "win32",
  env: { ...process.env, STATESET_SOAK: "1" },
});
process.exit(status ?? 1);

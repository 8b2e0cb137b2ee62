import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "tsdown";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createRandom } from "../../random.ts";
import { hashesOf } from "../../test-support/run-folder.ts";
import { tableLearners } from "../../test-support/table-learners.ts";

/** How many kills of each learner; the full proof is STATESET_KILLS=50. */
const kills = Number(process.env.STATESET_KILLS ?? (process.env.STATESET_SOAK ? 10 : 1));
/** Where in a run they come, as shares of its time: the same each time, and other ones with another seed. */
const moments = createRandom(Number(process.env.STATESET_KILL_SEED ?? 1));

const root = mkdtempSync(join(tmpdir(), "kill-"));
// Below node_modules, so that the bundle finds its dependencies.
const bundle = fileURLToPath(new URL(`../../../../../node_modules/.cache/kill-test-${process.pid}`, import.meta.url));

beforeAll(async () => {
  const entry = { run: fileURLToPath(new URL("../../test-support/killable-run.ts", import.meta.url)) };
  await build({ entry, outDir: bundle, config: false, dts: false, platform: "node", logLevel: "silent" });
}, 120_000);
afterAll(() => {
  rmSync(root, { recursive: true, force: true });
  rmSync(bundle, { recursive: true, force: true });
});

function start(learner: string, dir: string): { child: ChildProcess; exit: Promise<number | null> } {
  const args = [join(bundle, "run.mjs"), learner, dir];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  return { child, exit: new Promise((resolve) => child.on("exit", (code) => resolve(code))) };
}

/** Kills the run `afterMs` after it has started (or restarted). True when it died of it. */
async function killed(learner: string, dir: string, afterMs: number): Promise<boolean> {
  const { child, exit } = start(learner, dir);
  child.stdout!.once("data", () => setTimeout(() => child.kill("SIGKILL"), afterMs));
  return (await exit) === null;
}

describe("a run that is killed", () => {
  // IPO is DPO with another loss.
  it.each([...tableLearners.filter((learner) => learner !== "ipo"), "acting", "harness"])(
    `(%s) ends in the same bytes after kill -9 at ${kills} random moments, when resumed`,
    async (learner) => {
      const whole = join(root, `${learner}-whole`);
      const { child, exit } = start(learner, whole);
      let began = 0;
      child.stdout!.once("data", () => {
        began = performance.now();
      });
      expect(await exit).toBe(0);
      const duration = performance.now() - began;
      const expected = hashesOf(whole);
      let died = 0;
      let insideWrite = 0;
      // Until that many have really died: a kill that comes after the end does not count.
      for (let i = 0; died < kills; i++) {
        const dir = join(root, `${learner}-${i}`);
        if (await killed(learner, dir, moments.next() * duration)) died++;
        const checkpoints = join(dir, "checkpoints");
        if (existsSync(checkpoints) && readdirSync(checkpoints).some((name) => name.startsWith(".tmp-"))) insideWrite++;
        // Some are killed a second time, while they resume.
        if (i % 2 === 1 && (await killed(learner, dir, (moments.next() * duration) / 2))) died++;
        expect(await start(learner, dir).exit).toBe(0);
        expect(hashesOf(dir)).toEqual(expected);
        rmSync(dir, { recursive: true });
      }
      if (kills > 1) console.log(`${learner}: ${died} kills, ${insideWrite} of them inside the write of a checkpoint`);
    },
    120_000 * kills,
  );
});

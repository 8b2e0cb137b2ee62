/** Runs on the torch engine, in two ranks, that lose Node or a rank to kill -9 at random moments. Needs STATESET_PYTHON. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, it, onTestFinished } from "vitest";
import { loadNativePolicy } from "../src/policy/native/load.ts";
import { createRandom } from "../src/random.ts";
import { verifyManifest } from "../src/run/checkpoint/manifest.ts";
import { type SpawnedCli, spawnCli } from "./spawn-cli.ts";
import { storiesDir, temporaryFolder } from "./tiny-model.ts";
import { python } from "./torch-workers.ts";

/** How many processes are killed: the full proof is STATESET_KILLS=50, as in `npm run soak`. */
const kills = Number(process.env.STATESET_KILLS ?? (process.env.STATESET_SOAK ? 50 : 5));
/** Who is killed and when: the same each time, and others with another seed. */
const chance = createRandom(Number(process.env.STATESET_KILL_SEED ?? 1));
/** After the last sign of life; a run takes a few steps in that time. */
const longestMs = 3_000;
/** The deadline of the run's workers, and the time to start others on a busy machine. */
const patienceMs = 60_000 + 120_000;
const victims = ["Node", "rank 0", "rank 1"] as const;

/** The processes of workers whose socket is below a folder, torchrun's too, with their ranks. */
function workersBelow(folder: string): { pid: number; rank: string | undefined }[] {
  const read = (file: string) => {
    try {
      return readFileSync(file, "utf8").split("\0");
    } catch {
      return [];
    }
  };
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      const line = read(`/proc/${pid}/cmdline`);
      return line.includes("stateset_agents_worker") && line.some((argument) => argument.startsWith(folder));
    })
    .map((pid) => {
      const rank = read(`/proc/${pid}/environ`).find((entry) => entry.startsWith("RANK="));
      return { pid: Number(pid), rank: rank?.slice("RANK=".length) };
    });
}

/** Every checkpoint that is named is whole, and the embedded engine can go on from it. Answers how many there were. */
async function restoreNamed(dir: string): Promise<number> {
  const checkpoints = join(dir, "checkpoints");
  const pointers = ["last", "best"].map((name) => join(checkpoints, name)).filter((file) => existsSync(file));
  const named = new Set(pointers.map((file) => join(checkpoints, readFileSync(file, "utf8").trim())));
  for (const checkpoint of named) {
    const { step } = verifyManifest(checkpoint);
    const policy = await loadNativePolicy({ dir: storiesDir });
    expect(await policy.restore(join(checkpoint, "policy"))).toMatchObject({ version: policy.version });
    expect(JSON.parse(readFileSync(join(checkpoint, "state.json"), "utf8"))).toBeTypeOf("object");
    expect(checkpoint).toContain(String(step));
    await policy.close();
  }
  return named.size;
}

/** When the run goes on for the `times`-th time in its process, or that has ended: with which status. */
async function nextSign({ saw, exit, output }: SpawnedCli, times: number): Promise<number | null | "goes on"> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`Nothing came of it in ${patienceMs} ms: ${output()}`)), patienceMs);
  });
  const goesOn = saw(new RegExp(`(?:goes on[^]*){${times}}`)).then(
    () => "goes on" as const,
    () => exit,
  );
  return Promise.race([goesOn, exit, late]).finally(() => clearTimeout(timer));
}

describe.skipIf(!python || process.platform !== "linux")("a run on two ranks of the torch engine", () => {
  /** Kills until the run ends, or there are enough; takes it up again whenever its process is gone. Answers how many there are now. */
  async function killAndEnd(before: number): Promise<number> {
    const folder = temporaryFolder();
    const dir = join(folder, "run");
    const start = () => {
      const env = { TMPDIR: folder, OMP_NUM_THREADS: "1" };
      const started = spawnCli([storiesDir, dir], folder, "../test-support/killable-torch-run", env);
      // Where a test fails nobody else ends it.
      onTestFinished(() => void started.child.kill("SIGKILL"));
      return started;
    };
    let run = start();
    let [done, seen, mayFail] = [before, 0, false];
    for (;;) {
      // Now and then somebody is killed who only begins, or is about to be ended.
      const early = done < kills && done % 5 === 2;
      const sign = await (early ? Promise.race([run.exit, sleep(0, "goes on")]) : nextSign(run, seen + 1));
      if (sign === 0) break;
      if (sign !== "goes on") {
        expect(mayFail, run.output()).toBe(true);
        await expect.poll(() => workersBelow(folder)).toEqual([]);
        [run, seen, mayFail] = [start(), 0, false];
        continue;
      }
      if (done === kills) {
        seen = signsOf(run);
        continue;
      }
      const victim = victims[done % victims.length]!;
      const pid = () =>
        victim === "Node"
          ? run.child.pid!
          : workersBelow(folder).find(({ rank }) => rank === victim.slice("rank ".length))?.pid;
      const { child } = run;
      while (early && pid() === undefined && child.exitCode === null && child.signalCode === null) await sleep(20);
      const ended = await Promise.race([run.exit, sleep(chance.next() * longestMs, "not yet")]);
      seen = signsOf(run);
      if (ended === "not yet" && kill(pid())) {
        done++;
        mayFail = victim === "Node" || early;
        if (victim === "Node") await run.exit;
        await restoreNamed(dir);
      }
    }
    expect(run.output()).toContain('{"ended":"finished"');
    expect(run.output()).not.toContain("checkpoint-damaged");
    expect(workersBelow(folder)).toEqual([]);
    expect(await restoreNamed(dir)).toBeGreaterThan(0);
    const metrics = readFileSync(join(dir, "metrics.jsonl"), "utf8").trim().split("\n");
    const steps = metrics.map((line) => (JSON.parse(line) as { step: number }).step);
    // The first is what it was before.
    expect(steps).toEqual(Array.from({ length: 13 }, (_, step) => step));
    return done;
  }

  it(`ends with all its steps after kill -9 at ${kills} random moments`, { timeout: kills * patienceMs }, async () => {
    let done = 0;
    while (done < kills) done = await killAndEnd(done);
  });
});

function signsOf(run: SpawnedCli): number {
  return run.output().split("goes on").length - 1;
}

function kill(pid: number | undefined): boolean {
  try {
    return pid !== undefined && process.kill(pid, "SIGKILL");
  } catch {
    // It has ended by itself.
    return false;
  }
}

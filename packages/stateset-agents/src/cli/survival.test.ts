/** What a run survives when it is started, killed and resumed the way people do it: by the command line, on the real engine. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { chatModel, cli, tableProject } from "../../test/cli.ts";
import { spawnCli } from "../../test/spawn-cli.ts";
import { temporaryFolder } from "../../test/tiny-model.ts";
import { createRandom } from "../random.ts";
import { flipBit, hashesOf } from "../test-support/run-folder.ts";

/** How many times a run is killed; the full proof is STATESET_KILLS=50. */
const kills = Number(process.env.STATESET_KILLS ?? 1);
/** Where in a run they come, as shares of its time: the same each time, and other ones with another seed. */
const moments = createRandom(Number(process.env.STATESET_KILL_SEED ?? 1));

describe("a run on the engine that is killed", () => {
  let model: string;
  let root: string;
  beforeAll(async () => {
    model = await chatModel();
    root = await temporaryFolder();
  });
  const project = (name: string) => {
    const dir = join(root, name);
    mkdirSync(dir);
    const lines = [
      `agent: { model: ${JSON.stringify(model)}, sampling: { max_tokens: 8 } }`,
      "environment: { preset: customer_service, max_turns: 1 }",
      "reward: { conciseness: 1, politeness: 1 }",
      "auto_adjust: true",
      "training: { steps: 12, groups_per_step: 2, group_size: 4, learning_rate: 0.02, checkpoint: { every: 1, keep: 2 }, evaluation: { every: 6, samples: 1 } }",
    ];
    writeFileSync(join(dir, "stateset.config.yaml"), `${lines.join("\n")}\n`);
    return dir;
  };
  /** cli.json names the project, which is another one each time. */
  const contents = (dir: string) => hashesOf(join(dir, "runs/r"), ["cli.json"]);

  it(`ends in the same bytes after kill -9 at ${kills} random moments`, { timeout: 3_600_000 }, async () => {
    const whole = project("whole");
    const first = spawnCli(["train", "--name", "r"], whole);
    await first.saw(/checkpoint/);
    const began = performance.now();
    expect(await first.exit).toBe(0);
    const duration = performance.now() - began;
    const expected = contents(whole);
    expect(Object.keys(expected)).toEqual(expect.arrayContaining(["metrics.jsonl", "final/model.safetensors"]));
    let died = 0;
    // Until that many have really died: a kill that comes after the end shows nothing.
    for (let i = 0; died < kills; i++) {
      const dir = project(`killed-${i}`);
      const run = spawnCli(["train", "--name", "r"], dir);
      await run.saw(/checkpoint/);
      setTimeout(() => run.child.kill("SIGKILL"), moments.next() * duration);
      if ((await run.exit) === null) {
        died++;
        expect(await spawnCli(["train", "--resume", "runs/r"], dir).exit).toBe(0);
      }
      expect(contents(dir)).toEqual(expected);
      rmSync(dir, { recursive: true });
    }
  });
});

describe("a damaged checkpoint", () => {
  const damages: [string, (file: string) => void][] = [
    ["truncated", (file) => truncateSync(file, 10)],
    ["bit-flipped", flipBit],
    ["missing", (file) => rmSync(file)],
  ];
  for (const [name, damage] of damages) {
    it(`that is ${name} is named, and the one before it is used`, async () => {
      const cwd = await tableProject(await temporaryFolder(), {
        training: { steps: 4, checkpoint: { every: 1, keep: 3 } },
      });
      await cli(["train", "--name", "whole", "--steps", "6"], { cwd });
      await cli(["train", "--name", "r", "--steps", "4"], { cwd });
      damage(join(cwd, "runs/r/checkpoints/step-000004/policy/parameters.bin"));
      const resumed = await cli(["train", "--resume", "runs/r", "--steps", "6", "--json"], { cwd });
      expect(resumed.status).toBe(0);
      expect(resumed.json.find(({ type }) => type === "warning")!.message).toMatch(
        /step-000004 is damaged: policy\/parameters\.bin/,
      );
      expect(resumed.json.find(({ type }) => type === "start")).toMatchObject({ resumedAfter: 3 });
      const metrics = (run: string) => readFileSync(join(cwd, "runs", run, "metrics.jsonl"), "utf8").split("\n");
      expect(metrics("r").length).toBe(metrics("whole").length);
    });
  }
});

/** A real file system of a few hundred kilobytes. Needs the right to mount; elsewhere the test says that it was skipped. */
describe("a full disk", () => {
  let mount: string;
  let mounted = false;
  beforeAll(async () => {
    mount = join(await temporaryFolder(), "disk");
    mkdirSync(mount);
    mounted =
      process.platform === "linux" &&
      spawnSync("mount", ["-t", "tmpfs", "-o", "size=192k", "tmpfs", mount]).status === 0;
  });
  afterAll(() => {
    if (mounted) spawnSync("umount", [mount]);
  });

  it("ends the run with a clear message, and the last good checkpoint can be resumed", async (context) => {
    if (!mounted) context.skip("needs the right to mount a small tmpfs");
    await tableProject(mount, {
      training: { steps: 40, checkpoint: { every: 1, keep: 30 }, trajectories: { every: 0 } },
    });
    const full = await cli(["train", "--name", "r"], { cwd: mount });
    expect(full.status).toBe(8);
    expect(full.stderr).toMatch(/could not be written|no space left/i);
    expect(full.stderr).toContain("The disk is full: free some space, then resume the run.");
    const checkpoints = readdirSync(join(mount, "runs/r/checkpoints")).filter((name) => name.startsWith("step-"));
    expect(checkpoints.length).toBeGreaterThan(0);

    spawnSync("mount", ["-o", "remount,size=4m", mount]);
    const resumed = await cli(["train", "--resume", "runs/r", "--json"], { cwd: mount });
    expect(resumed.status).toBe(0);
    expect(resumed.json[0]!.resumedAfter).toBe(checkpoints.length - 1); // One is from before the first step.
    expect(existsSync(join(mount, "runs/r/final"))).toBe(true);
  });

  it("and a folder that cannot be written to are told apart", async () => {
    const cwd = await tableProject(await temporaryFolder());
    writeFileSync(join(cwd, "runs"), "a file where the folder should be");
    const result = await cli(["train", "--name", "r"], { cwd });
    expect(result.status).toBe(8);
    expect(result.stderr).toContain("runs");
  });
});

/** A run that is under way, and others who want its folder. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { cli, tableProject } from "../../test/cli.ts";
import { spawnCli } from "../../test/spawn-cli.ts";
import { temporaryFolder } from "../../test/tiny-model.ts";

const taking = (sampleDelayMs: number) => ({
  training: { steps: 12, checkpoint: { every: 2 } },
  rest: `agent: new MultiTurnAgent({ policy: createTablePolicy({ sampleDelayMs: ${sampleDelayMs} }), sampling: { maxTokens: 6 } }),`,
});
// Long enough for another process to come between, also on a busy machine.
const slow = taking(250);

it("cannot be resumed, overwritten or pruned by another process, and is unharmed", async () => {
  const cwd = await tableProject(await temporaryFolder(), slow);
  const live = spawnCli(["train", "--name", "r"], cwd);
  await live.saw(/step 2\/12/);

  // The configuration is read by another loader here, which prints functions otherwise.
  const resumed = await cli(["train", "--resume", "runs/r", "--accept-changes"], { cwd });
  expect(resumed.status).toBe(5);
  expect(resumed.stderr).toContain(`cannot be resumed: process ${live.child.pid} is running it`);
  expect((await cli(["train", "--name", "r"], { cwd })).stderr).toContain("already holds a run");
  const pruned = await cli(["runs", "prune", "--keep", "0", "--yes"], { cwd });
  expect(pruned.stdout).toContain(`r is running (process ${live.child.pid}) and stays.`);
  expect((await cli(["runs", "list"], { cwd })).stdout).toMatch(/● r +running +grpo/);
  expect(live.child.exitCode).toBeNull();

  expect(await live.exit, live.output()).toBe(0);
  expect(live.output()).not.toMatch(/!/);
  const whole = await tableProject(await temporaryFolder(), taking(0));
  expect(await spawnCli(["train", "--name", "r"], whole).exit).toBe(0);
  for (const file of ["metrics.jsonl", "events.jsonl", "checkpoints/step-000012/policy/parameters.bin"]) {
    expect(readFileSync(join(cwd, "runs/r", file)).equals(readFileSync(join(whole, "runs/r", file))), file).toBe(true);
  }
  expect(existsSync(join(cwd, "runs/r/lock"))).toBe(false);
});

it("is lost once its process was killed, and its lock is taken over", async () => {
  const cwd = await tableProject(await temporaryFolder(), slow);
  const first = spawnCli(["train", "--name", "r"], cwd);
  await first.saw(/step 3\/12/);
  first.child.kill("SIGKILL");
  await first.exit;
  expect(existsSync(join(cwd, "runs/r/lock"))).toBe(true);
  expect((await cli(["runs", "list"], { cwd })).stdout).toMatch(/\? r +lost +grpo +\d+\/12/);
  const second = spawnCli(["train", "--resume", "runs/r"], cwd);
  expect(await second.exit, second.output()).toBe(0);
  expect((await cli(["runs", "list"], { cwd })).stdout).toMatch(/✓ r +finished +grpo +12\/12/);
});

it("stops and saves when nobody reads its output any more", async () => {
  const cwd = await tableProject(await temporaryFolder(), slow);
  const live = spawnCli(["train", "--name", "r"], cwd);
  await live.saw(/step 2\/12/);
  live.child.stdout!.destroy();
  expect(await live.exit).toBe(129);
  expect((await cli(["runs", "list"], { cwd })).stdout).toMatch(/… r +interrupted +grpo/);
  expect(existsSync(join(cwd, "runs/r/lock"))).toBe(false);
});

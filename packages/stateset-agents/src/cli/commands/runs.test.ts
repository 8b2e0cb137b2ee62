import { cpSync, existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { cli, tableProject } from "../../../test/cli.ts";
import { flagTests } from "../../../test/flags.ts";
import { temporaryFolder } from "../../../test/tiny-model.ts";
import { tableLearner } from "../../test-support/table-learners.ts";

const { run, flag, complete } = flagTests("runs");

describe("runs", () => {
  let runs: string;
  beforeAll(async () => {
    runs = await temporaryFolder();
    await tableProject(runs);
    await run("train --json --name a --steps 2", { cwd: runs });
    await run("train --json --name b --steps 3 --kl 0.1", { cwd: runs });
  });
  const inRuns = (args: string) => run(`runs ${args}`, { cwd: runs });

  flag("runs list --dir", async () => {
    expect((await run(`runs list --dir ${join(runs, "runs")}`)).stdout).toMatch(/✓ a +finished +grpo +2\/2/);
    expect((await inRuns("list --dir nowhere")).stdout).toContain("No runs yet");
  });
  flag("runs list --json", async () => {
    expect(
      (await inRuns("list --json")).json
        .flat()
        .map(({ id }) => id)
        .sort(),
    ).toEqual(["a", "b"]);
  });
  flag("runs show --dir", async () => {
    expect((await run(`runs show a --dir ${join(runs, "runs")}`)).stdout).toContain("a  finished, 2 of 2 steps");
    expect((await inRuns("show c")).stderr).toContain('There is no run "c"');
  });
  flag("runs show --json", async () => {
    expect((await inRuns("show last --json")).json[0]).toMatchObject({
      id: "b",
      status: "finished",
      last: { step: 3 },
    });
  });
  flag("runs tag --dir", async () => {
    const at = `--dir ${join(runs, "runs")}`;
    expect((await run(`runs tag a best paper ${at}`)).stdout).toContain("a has the tags best, paper.");
    expect((await run(`runs list ${at}`)).stdout).toMatch(/✓ a .* best, paper/);
    expect((await run(`runs tag c best ${at}`)).stderr).toContain('There is no run "c"');
    expect((await run(`runs tag a ${"x".repeat(51)} ${at}`)).status).toBe(2);
  });
  flag("runs tag --json", async () => {
    expect((await inRuns("tag a best --json")).json).toMatchObject([{ run: "a", tags: ["best", "paper"], note: "" }]);
    expect((await inRuns("list --json")).json.flat().find(({ id }) => id === "a")).toMatchObject({
      tags: ["best", "paper"],
      archived: false,
      notesChangedAt: expect.stringMatching(/^\d{4}-/),
    });
  });
  flag("runs tag --remove", async () => {
    expect((await inRuns("tag a best --remove")).stdout).toContain("a has the tags paper.");
    expect((await inRuns("tag a paper --remove")).stdout).toContain("a has no tags.");
  });
  flag("runs note --dir", async () => {
    const input = "the reward is wrong\nsee step 4 \u001b[2J\n";
    expect((await run(`runs note a - --dir ${join(runs, "runs")}`, { input })).stdout).toContain("a has a note.");
    // What a terminal would obey is shown, not done.
    const { stdout } = await inRuns("show a");
    expect(stdout).toContain("note       the reward is wrong\n           see step 4 \uFFFD[2J\n");
  });
  flag("runs note --json", async () => {
    expect((await inRuns("note a short --json")).json).toMatchObject([{ run: "a", note: "short" }]);
    expect((await inRuns("show a --json")).json[0]).toMatchObject({ note: "short", tags: [] });
    expect((await cli(["runs", "note", "a", ""], { cwd: runs })).stdout).toContain("a has no note.");
  });
  flag("runs archive --dir", async () => {
    expect((await run(`runs archive a --dir ${join(runs, "runs")}`)).stdout).toContain("a is put away");
    const { stdout } = await inRuns("list");
    expect(stdout).not.toMatch(/✓ a /);
    expect(stdout).toContain("1 run put away: --all shows it.");
    expect((await inRuns("show a")).stdout).toContain("archived   yes");
  });
  flag("runs list --all", async () => {
    expect((await inRuns("list --all")).stdout).toMatch(/✓ a .*\(archived\)/);
    expect((await inRuns("list --json")).json.flat().map(({ id }) => id)).toEqual(["b"]);
  });
  flag("runs archive --json", async () => {
    expect((await inRuns("archive b --json")).json).toMatchObject([{ run: "b", archived: true }]);
    expect((await inRuns("list")).stdout).toBe("2 runs put away: --all shows them.\n");
  });
  flag("runs archive --undo", async () => {
    for (const name of ["a", "b"]) await inRuns(`archive ${name} --undo`);
    expect((await inRuns("list")).stdout).toMatch(/✓ a /);
  });
  flag("runs diff --dir", async () => {
    const { stdout } = await run(`runs diff a b --dir ${join(runs, "runs")}`);
    expect(stdout).toMatch(/kl\.coefficient +0 +0\.1/);
    expect(stdout).toMatch(/steps +2 +3/);
    expect(stdout).not.toContain("groupSize");
  });
  it("compares runs that learn from data by their loss, and says what a killed process left", async () => {
    const cwd = await temporaryFolder();
    for (const [name, epochs] of [
      ["one", 1],
      ["two", 2],
    ] as const) {
      await tableLearner("sft").run({ dir: join(cwd, "runs", name), name, epochs });
    }
    const { stdout } = await run("runs diff one two", { cwd });
    expect(stdout).toMatch(/last loss {2}\d\S* {2}\d/);
    const left = join(cwd, "runs", `.tmp-${2 ** 30}-three`);
    cpSync(join(cwd, "runs", "two"), left, { recursive: true });
    expect((await run("runs list", { cwd })).stdout.split("\n")).toHaveLength(4);
    expect((await run("runs prune --yes", { cwd })).stdout).toContain(left);
    expect(readdirSync(join(cwd, "runs")).sort()).toEqual(["one", "two"]);
  });
  flag("runs diff --json", async () => {
    expect((await inRuns("diff a b --json")).json[0]).toMatchObject({
      settings: [{ path: "settings.kl.coefficient" }, { path: "settings.steps", a: 2, b: 3 }],
    });
  });
  flag("runs export --dir", async () => {
    await run(`runs export a tensorboard --dir ${join(runs, "runs")}`);
    expect(readdirSync(join(runs, "runs/a/tensorboard"))).toHaveLength(1);
  });
  flag("runs export --json", async () => {
    expect((await inRuns("export a wandb --json")).json[0]).toMatchObject({ run: "a", tool: "wandb", steps: 2 });
    expect(readdirSync(join(runs, "runs/a/wandb"))[0]).toContain("offline-run-");
  });
  flag("runs prune --yes", async () => {
    const asked = await inRuns("prune --checkpoints");
    expect(asked.stdout).toContain("Would remove 2 folders");
    expect(existsSync(join(runs, "runs/a/checkpoints"))).toBe(true);
  });
  flag("runs prune --checkpoints", async () => {
    expect((await inRuns("prune --checkpoints --yes")).stdout).toContain("Removed 2 folders");
    expect(existsSync(join(runs, "runs/a/checkpoints"))).toBe(false);
    expect(existsSync(join(runs, "runs/a/final"))).toBe(true);
  });
  flag("runs prune --keep", async () => {
    expect((await inRuns("prune --keep 1 --yes")).stdout).toContain("Removed 1 folders");
    expect(readdirSync(join(runs, "runs"))).toEqual(["b"]);
  });
  flag("runs prune --dir", async () => {
    expect((await run(`runs prune --keep 0 --dir ${join(runs, "runs")}`)).stdout).toContain(join(runs, "runs/b"));
  });
  flag("runs prune --json", async () => {
    expect((await inRuns("prune --keep 0 --json")).json[0]).toMatchObject({
      removed: false,
      paths: [join(runs, "runs/b")],
    });
  });
});

complete();

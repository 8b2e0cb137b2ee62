/** Every documented exit status is produced here, the last test says if one is missing. */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { chatModel, cli, tableProject } from "../../test/cli.ts";
import { spawnCli } from "../../test/spawn-cli.ts";
import { temporaryFolder } from "../../test/tiny-model.ts";
import { errorCodes, StatesetError } from "../error.ts";
import { exitCodeOf, exitCodes } from "./exit-codes.ts";

const produced = new Set<number>();

function status(code: keyof typeof exitCodes, when: string, test: () => Promise<void>): void {
  produced.add(code);
  it(`${code} ${when}`, test);
}

describe("the exit status is", () => {
  status(0, "when all is well, also of the real process", async () => {
    const version = spawnCli(["version"], await temporaryFolder());
    expect(await version.exit).toBe(0);
    expect(version.output()).toMatch(/^stateset-agents \d/);
    for (const [alias, command] of [
      ["grpo-train", "train"],
      ["grpo-evaluate", "evaluate"],
    ] as const) {
      const help = spawnCli(["--help"], await temporaryFolder(), alias);
      expect(await help.exit).toBe(0);
      expect(help.output()).toContain(`Usage: stateset-agents ${command}`);
    }
  });

  status(1, "for what nobody foresaw; STATESET_DEBUG=1 shows where it came from", async () => {
    const cwd = await tableProject(await temporaryFolder(), {
      head: 'class Broken extends MultiTurnAgent { async initialize() { throw new Error("boom"); } }',
      rest: "agent: new Broken({ policy: createTablePolicy() }),",
    });
    const quiet = await cli(["train"], { cwd });
    expect(quiet.status).toBe(1);
    expect(quiet.stderr).toBe(
      "✗ Unexpected: boom\n→ Set STATESET_DEBUG=1 and run it again to see where this comes from.\n",
    );
    const loud = await cli(["train"], { cwd, env: { STATESET_DEBUG: "1" } });
    expect(loud.stderr).toMatch(/Error: boom\n {4}at Broken.initialize/);
  });

  status(2, "for a command line that is wrong, with the nearest right one", async () => {
    const cwd = await temporaryFolder();
    expect(await cli(["trian"], { cwd })).toMatchObject({
      status: 2,
      stderr: "✗ Unknown command 'trian'.\n→ Did you mean \"train\"?\n",
    });
    expect(await cli(["train", "--stpes", "3"], { cwd })).toMatchObject({
      status: 2,
      stderr: "✗ Unknown option '--stpes'.\n→ Did you mean \"--steps\"?\n",
    });
    const project = await tableProject(await temporaryFolder());
    const misspelt = await cli(["train", "--set", "learningRte=1"], { cwd: project });
    expect(misspelt.status).toBe(2);
    expect(misspelt.stderr).toContain(
      'Unknown option "learningRte" in train(). (INVALID_OPTION)\n→ Did you mean "learningRate"?',
    );
  });

  status(3, "for a configuration or data file that is missing or malformed", async () => {
    const cwd = await temporaryFolder();
    const missing = await cli(["train"], { cwd });
    expect(missing.status).toBe(3);
    expect(missing.stderr).toContain("→ Make a project with `npx stateset-agents init`");
    writeFileSync(join(cwd, "bad.yaml"), "environment:\n  preset: [\n");
    expect((await cli(["train", "--config", "bad.yaml"], { cwd })).stderr).toMatch(/bad\.yaml, line \d/);
    writeFileSync(join(cwd, "bad.jsonl"), '{"id": "x", "userResponses": []}\n');
    const scenarios = await cli(["evaluate", "--stub", "--scenarios", "bad.jsonl"], { cwd });
    expect(scenarios.status).toBe(3);
    expect(scenarios.stderr).toContain("bad.jsonl, line 1");
    writeFileSync(join(cwd, "throws.ts"), 'throw new Error("half written");');
    expect(await cli(["train", "--config", "throws.ts"], { cwd })).toMatchObject({
      status: 3,
      stderr: expect.stringContaining("half written") as string,
    });
  });

  status(4, "for a model that cannot be used", async () => {
    const cwd = await temporaryFolder();
    const project = join(cwd, "stateset.config.yaml");
    writeFileSync(
      project,
      "environment: { preset: sales }\nreward: { politeness: 1 }\nagent: { model: ./nothing-here }\n",
    );
    const missing = await cli(["train"], { cwd });
    expect(missing.status).toBe(4);
    expect(missing.stderr).toContain("nothing-here");
    const model = await chatModel();
    writeFileSync(join(model, "model.safetensors"), readFileSync(join(model, "model.safetensors")).subarray(0, 5000));
    expect((await cli(["evaluate", "--checkpoint", model, "--message", "hi"], { cwd })).status).toBe(4);
  });

  status(5, "for a checkpoint that is missing or damaged", async () => {
    const cwd = await tableProject(await temporaryFolder());
    expect((await cli(["evaluate", "--checkpoint", "runs/none", "--message", "hi"], { cwd })).status).toBe(5);
    expect((await cli(["train", "--resume"], { cwd })).status).toBe(5);
    await cli(["train", "--name", "r", "--set", "checkpoint.keep=1"], { cwd });
    // The last one, and the one before training, which may be the best.
    const folder = join(cwd, "runs/r/checkpoints");
    for (const name of readdirSync(folder).filter((name) => name.startsWith("step-")))
      writeFileSync(join(folder, name, "state.json"), "{}");
    const damaged = await cli(["train", "--resume", "runs/r"], { cwd });
    expect(damaged.status).toBe(5);
    expect(damaged.stderr).toMatch(
      /Every checkpoint .* is damaged. The newest: .*step-000003 is damaged: state.json has 2 bytes instead of/,
    );
  });

  status(6, "for work that does not fit in memory", async () => {
    const model = await chatModel();
    const path = join(model, "config.json");
    const config = JSON.parse(readFileSync(path, "utf8")) as object;
    writeFileSync(
      path,
      JSON.stringify({ ...config, hidden_size: 65_536, intermediate_size: 262_144, num_hidden_layers: 400 }),
    );
    const result = await cli(["evaluate", "--checkpoint", model, "--message", "hi"], { cwd: model });
    expect(result.status).toBe(6);
    expect(result.stderr).toMatch(/needs about .* GiB, and .* are available/);
  });

  status(7, "for a run that breaks down", async () => {
    const cwd = await tableProject(await temporaryFolder(), {
      rest: 'reward: rewardFunction({ name: "broken" }, () => { throw new Error("no judge today"); }),',
    });
    const result = await cli(["evaluate", "--stub", "--scenarios"], { cwd });
    expect(result.status).toBe(7);
    expect(result.stderr).toContain("no judge today");
  });

  status(8, "for a file that cannot be written", async () => {
    const cwd = await temporaryFolder();
    writeFileSync(join(cwd, "occupied"), "");
    const result = await cli(
      ["evaluate", "--stub", "--scenarios", "--samples", "1", "--output", "occupied/result.json"],
      { cwd },
    );
    expect(result.status).toBe(8);
    expect(result.stderr).toContain("occupied/result.json");
  });

  status(9, "when doctor finds a problem", async () => {
    const result = await cli(["doctor", "--model", "nowhere"], { cwd: await temporaryFolder() });
    expect(result.status).toBe(9);
    expect(result.stdout).toMatch(/✗ Model[\s\S]*→ [\s\S]*1 problem found/);
  });

  status(130, "after Ctrl-C, which saves; the resumed run ends in the same bytes", async () => {
    const root = await temporaryFolder();
    const settings = {
      training: { steps: 12, checkpoint: { every: 0 } },
      rest: "agent: new MultiTurnAgent({ policy: createTablePolicy({ sampleDelayMs: 60 }), sampling: { maxTokens: 6 } }),",
    };
    const cwd = await tableProject(join(root, "interrupted"), settings);
    const run = spawnCli(["train", "--name", "r"], cwd);
    await run.saw(/step 2\/12/);
    run.child.kill("SIGINT");
    expect(await run.exit).toBe(130);
    expect(run.output()).toContain("Saving the steps done");
    expect(run.output()).toMatch(
      /Stopped after step \d+ and saved. Go on with:\n {2}npx stateset-agents train --resume runs\/r/,
    );
    const resumed = spawnCli(["train", "--resume", "runs/r"], cwd);
    expect(await resumed.exit, resumed.output()).toBe(0);

    const whole = await tableProject(join(root, "whole"), settings);
    await cli(["train", "--name", "r"], { cwd: whole });
    for (const file of [
      "metrics.jsonl",
      "checkpoints/step-000012/policy/parameters.bin",
      "checkpoints/step-000012/state.json",
    ]) {
      expect(readFileSync(join(cwd, "runs/r", file)).equals(readFileSync(join(whole, "runs/r", file))), file).toBe(
        true,
      );
    }
  });

  for (const [code, signal, when] of [
    [143, "SIGTERM", "when it is asked to end, in the middle of a reply"],
    [129, "SIGHUP", "when its terminal goes away"],
  ] as const) {
    status(code, when, async () => {
      const cwd = await tableProject(await temporaryFolder(), {
        training: { steps: 12, checkpoint: { every: 0 } },
        rest: "agent: new MultiTurnAgent({ policy: createTablePolicy({ sampleDelayMs: 60 }), sampling: { maxTokens: 6 } }),",
      });
      const run = spawnCli(["train", "--name", "r"], cwd);
      await run.saw(/step 2\/12/);
      run.child.kill(signal);
      expect(await run.exit).toBe(code);
      expect((await cli(["runs", "list"], { cwd })).stdout).toMatch(/… r +interrupted/);
    });
  }

  status(130, "at once on a second Ctrl-C", async () => {
    const cwd = await tableProject(await temporaryFolder(), {
      rest: "heldOut: undefined, agent: new MultiTurnAgent({ policy: createTablePolicy({ sampleDelayMs: 60_000 }), sampling: { maxTokens: 6 } }),",
    });
    const run = spawnCli(["train", "--name", "r"], cwd);
    await run.saw(/r {2}grpo/);
    run.child.kill("SIGINT");
    await run.saw(/Ctrl-C again stops at once/);
    run.child.kill("SIGINT");
    expect(await run.exit).toBe(130);
    rmSync(cwd, { recursive: true, force: true });
  });
});

describe("the table of exit codes", () => {
  it("is tested whole", () => {
    expect([...produced].sort((a, b) => a - b)).toEqual(
      Object.keys(exitCodes)
        .map(Number)
        .sort((a, b) => a - b),
    );
  });

  it("has a status for every error code", () => {
    for (const code of Object.keys(errorCodes) as (keyof typeof errorCodes)[]) {
      expect(Object.keys(exitCodes)).toContain(String(exitCodeOf(new StatesetError(code, "x"))));
    }
  });
});

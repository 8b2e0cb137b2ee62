import { existsSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect } from "vitest";
import type { CliResult } from "../../../test/cli.ts";
import { flagTests } from "../../../test/flags.ts";
import { temporaryFolder } from "../../../test/tiny-model.ts";

const { place, run, flag, complete } = flagTests("demo");

describe("demo", () => {
  // One run of one step with every flag: the starter model on the real engine.
  let result: CliResult;
  beforeAll(async () => {
    const cwd = await temporaryFolder();
    result = await run("demo --json --steps 1 --seed 5 --threads 2 --reward constant", { cwd });
  }, 240_000);

  flag("demo --json", async () => {
    expect(result.status).toBe(0);
    expect(result.json.at(-1)).toMatchObject({ before: { mean: expect.any(Number) as number }, after: {} });
  });
  flag("demo --steps", async () => {
    expect(result.json[0]!.settings.steps).toBe(1);
  });
  flag("demo --seed", async () => {
    expect(result.json[0]!.settings.seed).toBe(5);
  });
  flag("demo --reward", async () => {
    // Nothing can be learnt from a constant: the agent stays as it was.
    expect(result.json.at(-1)!.after).toEqual(result.json.at(-1)!.before);
    expect((await run("demo --reward kind")).stderr).toContain("Allowed choices are polite, flipped, constant");
  });
  flag("demo --model", async () => {
    const cwd = await temporaryFolder();
    const own = await run(`demo --json --steps 1 --threads 1 --model ${place.model}`, { cwd });
    expect(own.stderr).toBe("");
    // An adapter alone, at the rate that train() chooses for it.
    expect(existsSync(join(own.json.at(-1)!.checkpoint as string, "adapter_config.json"))).toBe(true);
    expect(own.json[0]!.settings.learningRate).toBe(1e-3);
  });
  flag("demo --threads", async () => {
    expect((await run("demo --threads 0 --steps 1")).stderr).toContain("agent.threads");
  });
});

complete();

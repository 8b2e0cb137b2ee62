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
    expect((await run("demo --reward kind")).stderr).toContain(
      "Allowed choices are polite, success, flipped, constant",
    );
  });
  flag("demo --task", async () => {
    const cwd = await temporaryFolder();
    const own = `--steps 1 --threads 1 --model ${place.model}`;
    const shop = await run(`demo --task shop --json ${own}`, { cwd });
    expect(shop.stderr).toBe("");
    const last = shop.json.at(-1)!;
    expect(last).toMatchObject({ task: "shop", steps: 1, before: { count: 20 }, after: { count: 20 } });
    const classes = last.classes as Record<string, { before: { mean: number; count: number } }>;
    expect(Object.keys(classes)).toEqual(["lookup", "act", "refuse", "ask"]);
    for (const { before } of Object.values(classes)) expect(before.count).toBe(5);

    const shown = (await run(`demo --task shop ${own}`, { cwd })).stdout;
    expect(shown).toContain("A shop's agent learns to look up, act, refuse and ask back");
    expect(shown).toMatch(/of 20 held-out tasks solved +before +after\nlook up +0% \[0%, \d+%\]/);
    expect(shown).toMatch(/customer: .*(cancel|refund|money).* │ customer: /);

    const wrong = await run("demo --task shopp");
    expect(wrong.status).toBe(2);
    expect(wrong.stderr).toContain('Did you mean "shop"?');
    const unpaid = await run("demo --task shop --reward polite");
    expect(unpaid.status).toBe(2);
    expect(unpaid.stderr).toContain("Valid here: success, flipped, constant.");
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

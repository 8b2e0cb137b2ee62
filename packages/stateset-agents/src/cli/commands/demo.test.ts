import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import type { CliResult, Json } from "../../../test/cli.ts";
import { flagTests } from "../../../test/flags.ts";
import { temporaryFolder } from "../../../test/tiny-model.ts";

const { place, run, flag, engineFlags, complete } = flagTests("demo");

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
    // Before a model is opened and measured.
    const none = await run("demo --steps 0");
    expect([none.status, none.stdout]).toEqual([2, ""]);
    expect(none.stderr).toContain("'--steps <n>' argument '0' is invalid. It must be a whole number, 1 or more.");
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
  flag("demo --resume", async () => {
    const cwd = temporaryFolder();
    expect((await run("demo --resume", { cwd })).stderr).toContain("There is no run of demo to resume");
    expect((await run("demo --resume nothing", { cwd })).stderr).toContain(
      `There is no run at ${join(cwd, "nothing")}`,
    );
    const own = `demo --steps 3 --threads 1 --model ${place.model}`;
    const stopped = await run(own, { cwd, interruptAt: /step 1\/3/ });
    const { dir, command } = goOn(stopped, cwd);
    expect((await run(`${command} --seed 2`, { cwd })).stderr).toContain("goes on with its own --seed");
    expect((await run(`train --resume ${dir}`, { cwd })).stderr).toContain(`npx stateset-agents ${command}`);
    const other = await run("train --stub --steps 1 --name other", { cwd });
    expect(other.status).toBe(0);
    expect((await run("demo --resume runs/other", { cwd })).stderr).toContain("is one of train, not of demo");
    // Alone it takes the newest demo, and of one that has learnt all it tells again what came of it.
    const late = await run("demo --resume", { cwd, interruptAt: /Talking to the trained/ });
    expect(goOn(late, cwd).command).toBe(command);
    expect((await run(command, { cwd })).stdout).toContain("The trained agent is in");
  });
  engineFlags("demo", (flags) => run(`demo --steps 1 ${flags}`));
  flag("demo --threads", async () => {
    expect((await run("demo --threads 0 --steps 1")).stderr).toContain("agent.threads");
  });
});

/** The command that a demo prints when it was stopped. */
function goOn({ status, stdout }: CliResult, cwd: string): { command: string; dir: string } {
  expect(status).toBe(130);
  const [, command, dir] = /Go on with:\n {2}npx stateset-agents (demo --resume (\S+))\n$/.exec(stdout)!;
  return { command: command!, dir: join(cwd, dir!) };
}

describe.each(["polite", "shop"])("the demo %s, stopped by Ctrl-C", (task) => {
  const own = () => `demo --task ${task} --threads 1 --model ${place.model}`;

  it("says how to go on, and comes to the same weights and numbers to the bit", async () => {
    const [cwd, undisturbed] = [temporaryFolder(), temporaryFolder()];
    const whole = (await run(`${own()} --steps 2 --json`, { cwd: undisturbed })).json.at(-1)!;
    const stopped = await run(`${own()} --steps 2`, { cwd, interruptAt: /step 1\/2/ });
    const resumed = (await run(`${goOn(stopped, cwd).command} --json`, { cwd })).json.at(-1)!;
    const place = { run: "", checkpoint: "", seconds: 0 };
    expect({ ...resumed, ...place }).toEqual({ ...whole, ...place });
    const weights = ({ checkpoint }: Json) => readFileSync(join(checkpoint as string, "adapter_model.safetensors"));
    expect(weights(resumed).equals(weights(whole))).toBe(true);
  });

  it("says so where nothing was learnt yet, and leaves no run behind", async () => {
    const cwd = temporaryFolder();
    const { status, stderr } = await run(own(), { cwd, interruptAt: /Talking to the untrained/ });
    expect(status).toBe(130);
    const again = `demo${task === "polite" ? "" : ` --task ${task}`}`;
    expect(stderr).toContain(`stopped before it began to learn. Begin again: npx stateset-agents ${again}\n`);
    expect(readdirSync(join(cwd, "runs"))).toEqual([]);
  });
});

complete();

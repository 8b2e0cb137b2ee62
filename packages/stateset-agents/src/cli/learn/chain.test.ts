/** One adapter through sft, dpo and train to an export, each command begun from the run before. */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { chatModel, cli, type Json } from "../../../test/cli.ts";
import { learnFolder } from "../../../test/learn-data.ts";
import { spawnCli } from "../../../test/spawn-cli.ts";
import { loadAgentFromCheckpoint } from "../../run/load-agent.ts";
import { evaluateSupervised } from "../../supervised/train-supervised.ts";
import { readExamples } from "./data.ts";

const run = async (args: string, cwd: string) => {
  const result = await cli(args.split(" "), { cwd });
  expect(`${result.status} ${result.stderr}`).toBe("0 ");
  return result;
};

describe("one adapter", () => {
  it("goes through sft, dpo and train, and is exported with its base", async () => {
    const model = await chatModel();
    const cwd = await learnFolder(model);
    const taught = await run(
      "sft --json --data chats.jsonl --held-out other-chats.jsonl --lora 4 --learning-rate 0.02 --epochs 4 --name taught",
      cwd,
    );
    const { before, after } = taught.json.at(-1)!.heldOut as Json;
    expect(after.loss).toBeLessThan(before.loss);

    // The next one begins exactly where that one ended.
    const again = await run(
      "sft --json --data chats.jsonl --held-out other-chats.jsonl --checkpoint taught --name again",
      cwd,
    );
    expect(again.json.at(-1)!.heldOut.before.loss).toBe(after.loss);

    const preferred = await run(
      "dpo --json --data pairs.jsonl --held-out pairs.jsonl --checkpoint taught --learning-rate 0.02 --epochs 4 --name preferred",
      cwd,
    );
    const dpo = preferred.json.at(-1)!.heldOut as Json;
    expect([dpo.before.loss, dpo.before.accuracy]).toEqual([expect.closeTo(Math.LN2, 6), expect.closeTo(0.5, 6)]);
    expect(dpo.after.accuracy).toBeCloseTo(1, 6);

    await run("train --json --checkpoint preferred --steps 2 --name trained", cwd);
    const config = (name: string): Json => JSON.parse(readFileSync(join(cwd, "runs", name, "config.json"), "utf8"));
    expect(config("preferred").model.name).toBe(join(cwd, "runs/taught/final"));
    expect(config("trained").model.name).toBe(join(cwd, "runs/preferred/final"));
    for (const name of ["taught", "preferred", "trained"]) {
      expect(config(name).model.lora).toMatchObject({ rank: 4 });
      const adapter = JSON.parse(readFileSync(join(cwd, "runs", name, "final/adapter_config.json"), "utf8")) as Json;
      expect(adapter).toMatchObject({ r: 4, base_model_name_or_path: model });
    }

    await run("export trained adapter --json", cwd);
    await run("export trained merged --json --merge", cwd);
    expect(readdirSync(join(cwd, "adapter"))).toContain("adapter_model.safetensors");
    expect(existsSync(join(cwd, "merged/adapter_config.json"))).toBe(false);
    // The same agent, whichever way it was written.
    const examples = await readExamples(join(cwd, "other-chats.jsonl"), undefined, {});
    const losses: number[] = [];
    for (const folder of ["runs/trained", "adapter", "merged", "runs/taught"]) {
      const agent = await loadAgentFromCheckpoint(join(cwd, folder), { threads: 1 });
      losses.push((await evaluateSupervised(agent.policy, examples)).loss);
      await agent.close();
    }
    const [whole, adapter, merged, first] = losses as [number, number, number, number];
    expect(adapter).toBe(whole);
    expect(merged).toBeCloseTo(whole, 4);
    expect(Math.abs(first - whole)).toBeGreaterThan(1e-3);
  });
});

describe("a run that is stopped", () => {
  it.each([
    ["sft", "SIGINT", 130],
    ["dpo", "SIGTERM", 143],
  ] as const)(
    "%s saves on %s, and ends as if it had never stopped by the command it prints",
    async (command, signal, code) => {
      const model = await chatModel();
      const data = command === "sft" ? "chats.jsonl" : "pairs.jsonl";
      const args = `${command} --data ${data} --lora 2 --epochs 150 --batch-size 2 --name r`;
      const [cwd, whole] = [await learnFolder(model), await learnFolder(model)];
      await run(args, whole);
      const stopped = spawnCli(args.split(" "), cwd);
      await stopped.saw(/step 3\/450/);
      stopped.child.kill(signal);
      expect(await stopped.exit).toBe(code);
      const [, again] = /npx stateset-agents (.* --resume runs\/r)/.exec(stopped.output()) ?? [];
      expect(again).toBe(`${command} --resume runs/r`);
      const steps = Number(/Stopped after step (\d+)/.exec(stopped.output())![1]);
      expect(steps).toBeLessThan(450);
      // In a process like the one before: what loads the code decides what it looks like to config.json.
      const resumed = spawnCli(again!.split(" "), cwd);
      expect(await resumed.exit, resumed.output()).toBe(0);
      const weights = (dir: string) => readFileSync(join(dir, "runs/r/final/adapter_model.safetensors"));
      expect(weights(cwd).equals(weights(whole))).toBe(true);
    },
  );

  it("best-of-n goes on after what it has sampled, and learns as it was told to", async () => {
    const model = await chatModel();
    const [cwd, whole] = [await learnFolder(model), await learnFolder(model)];
    const args =
      "best-of-n --n 40 --lora 2 --name r --epochs 3 --batch-size 1 --learning-rate 0.00123 --set schedule=constant --set sampling.maxTokens=60";
    await run(args, whole);
    const hold = join(cwd, "hold");
    writeFileSync(hold, "");
    const stopped = spawnCli(args.split(" "), cwd);
    await stopped.saw(/sampled 1\/2 scenarios/);
    stopped.child.kill("SIGINT");
    await stopped.saw(/Ctrl-C again/);
    rmSync(hold);
    expect(await stopped.exit).toBe(130);
    expect(stopped.output()).toMatch(
      /Stopped after sampling 1 of 2 scenarios \(\d of 40 conversations kept\) and saved\./,
    );
    expect(existsSync(join(cwd, "runs/r/final"))).toBe(false);
    expect((await cli(args.split(" "), { cwd })).stderr).toContain(
      "go on with it: npx stateset-agents best-of-n --resume runs/r",
    );
    for (const other of ["--n 3", "--keep 2", "--min-reward 0", "--seed 4", "--name other", "--set aboveMean=false"]) {
      const refused = await cli(`best-of-n --resume r ${other}`.split(" "), { cwd });
      expect([refused.status, refused.stderr]).toEqual([
        2,
        expect.stringContaining(`${other.replace(/=.*|(?<!--set) .*/, "")} cannot be given here`),
      ]);
    }

    // In processes like the first: what loads the code decides what it looks like.
    const resume = async () => {
      // Without a name: the newest, also where it has only sampled yet.
      const { exit, output } = spawnCli(["best-of-n", "--resume"], cwd);
      return { status: await exit, text: output() };
    };
    const reward = join(cwd, "reward.ts");
    const source = readFileSync(reward, "utf8");
    writeFileSync(reward, source.replace("/ 40", "/ 50"));
    const changed = await resume();
    expect(changed.status).toBe(2);
    expect(changed.text).toMatch(
      /goes on otherwise than it began: reward\..*Give --accept-changes to go on, or start a/s,
    );
    writeFileSync(reward, source);
    const again = await resume();
    expect(again.status, again.text).toBe(0);
    expect(again.text).not.toContain("sampled 1/2");
    const weights = (dir: string) => readFileSync(join(dir, "runs/r/final/adapter_model.safetensors"));
    expect(weights(cwd).equals(weights(whole))).toBe(true);
    const { settings } = JSON.parse(readFileSync(join(cwd, "runs/r/config.json"), "utf8")) as Json;
    expect(settings).toMatchObject({ epochs: 3, batchSize: 1, learningRate: 0.00123, schedule: "constant" });
  });

  it("says of a harvest whose settings are damaged what can be done with it", async () => {
    const cwd = await learnFolder(await chatModel());
    await run("best-of-n --n 3 --name r", cwd);
    rmSync(join(cwd, "runs/r/config.json"));
    writeFileSync(join(cwd, "runs/r/harvest/settings.json"), '{"settings": {');
    const { status, stderr } = await cli(["best-of-n", "--resume", "r"], { cwd });
    expect(status).toBe(5);
    expect(stderr).toMatch(/harvest\/settings\.json cannot be read: .*\n.*sft --data/);
  });
});

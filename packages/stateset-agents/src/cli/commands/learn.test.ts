/** Every flag of the commands that learn from data, on a random model of a few kilobytes. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import type { CliResult, Json } from "../../../test/cli.ts";
import { flagTests } from "../../../test/flags.ts";
import { dataFiles, learnFolder } from "../../../test/learn-data.ts";

const { place, run: inProject, flag, engineFlags, complete } = flagTests("sft", "dpo", "reward-model", "best-of-n");

/** A project whose model is `place.model`, with data for each of them. */
let cwd = "";
beforeAll(async () => {
  cwd = await learnFolder(place.model);
});
const run = (args: string): Promise<CliResult> => inProject(args, { cwd });

type Command = keyof typeof dataFiles | "best-of-n";
const commands = [...(Object.keys(dataFiles) as (keyof typeof dataFiles)[]), "best-of-n"] as const;

const sourceOf = (command: Command) => (command === "best-of-n" ? "--n 3" : `--data ${dataFiles[command].data}`);
const learn = (command: Command, args: string) => run(`${command} --json ${sourceOf(command)} ${args}`);
/** The settings a run started with, and what it came to. */
const started = async (command: Command, args: string): Promise<{ start: Json; result: Json }> => {
  const { json, stderr } = await learn(command, args);
  expect(stderr).toBe("");
  return { start: json.find(({ type }) => type === "start")!, result: json.at(-1)! };
};
const files = (name: string) => readdirSync(join(cwd, "runs", name));
const runConfig = (name: string): Json => JSON.parse(readFileSync(join(cwd, "runs", name, "config.json"), "utf8"));

describe.each(commands)("%s", (command) => {
  const named = (what: string) => `${command}-${what}`;

  flag(`${command} --config`, async () => {
    const elsewhere = await learnFolder(place.other, join(cwd, named("elsewhere")));
    const config = join(elsewhere, "stateset.config.yaml");
    await learn(command, `--name ${named("config")} --config ${config}`);
    expect(runConfig(named("config")).model.name).toBe(place.other);
  });
  flag(`${command} --name`, async () => {
    const { start, result } = await started(command, `--name ${named("called")}`);
    expect(start.run).toBe(named("called"));
    expect(result).toMatchObject({
      type: "result",
      status: "finished",
      final: join(cwd, "runs", named("called"), "final"),
    });
    expect(files(named("called"))).toEqual(
      expect.arrayContaining(["config.json", "cli.json", "final", "metrics.jsonl"]),
    );
    const again = await run(`${command} ${sourceOf(command)} --name ${named("called")}`);
    expect(again.status).toBe(2);
    expect(again.stderr).toContain(`The name "${named("called")}" is taken`);
    expect(again.stderr).toContain(`→ Give another --name, or go on with it: npx stateset-agents ${command} --resume`);
  });
  flag(`${command} --resume`, async () => {
    const whole = named("whole");
    await learn(command, `--name ${whole} --epochs 2 --batch-size 4`);
    await learn(command, `--name ${named("part")} --epochs 1 --batch-size 4`);
    const resumed = await run(`${command} --json --resume ${named("part")} --epochs 2`);
    expect(resumed.json.find(({ type }) => type === "start")).toMatchObject({
      run: named("part"),
      resumedAfter: expect.any(Number) as number,
    });
    expect(resumed.json.at(-1)).toMatchObject({ status: "finished" });
    // Without a value it takes the newest run of this command, which has nothing left to do.
    expect((await run(`${command} --json --resume`)).json[0]).toMatchObject({ run: named("part") });
    const other = command === "dpo" ? "sft" : "dpo";
    const mistaken = await run(`${other} --resume ${named("part")}`);
    expect(mistaken.status).toBe(5);
    expect(mistaken.stderr).toContain(`npx stateset-agents ${command} --resume runs/${named("part")}`);
  });
  flag(`${command} --accept-changes`, async () => {
    const dir = await learnFolder(place.model, join(cwd, named("changing")));
    const at = (args: string) => inProject(args, { cwd: dir });
    await at(`${command} --json ${sourceOf(command)} --name r`);
    // Nothing has changed, so nothing is asked.
    expect((await at(`${command} --json --resume r --epochs 2`)).status).toBe(0);
    if (command === "best-of-n" || command === "sft") {
      const config = join(dir, "stateset.config.yaml");
      writeFileSync(config, readFileSync(config, "utf8").replace("agent: {", 'agent: { systemPrompt: "Be brief.",'));
    } else {
      const file = join(dir, dataFiles[command].data);
      writeFileSync(file, readFileSync(file, "utf8").replaceAll("the red one", "a red one"));
    }
    const refused = await at(`${command} --json --resume r --epochs 3`);
    expect(refused.status).toBe(2);
    const what = command === "best-of-n" || command === "sft" ? "agent.systemPrompt" : "data.";
    expect(refused.json.at(-1)).toMatchObject({
      message: expect.stringContaining(what) as string,
      hint: expect.stringContaining("--accept-changes") as string,
    });
    const accepted = await at(`${command} --json --resume r --epochs 3 --accept-changes`);
    // What a reference said of other pairs is gone, so that DPO itself refuses them.
    expect(accepted.status).toBe(command === "dpo" ? 5 : 0);
  });
  flag(`${command} --discard-later`, async () => {
    await learn(command, `--name ${named("later")} --epochs 3 --batch-size 8 --set checkpoint.every=1`);
    const from = join(cwd, "runs", named("later"), "checkpoints/step-000002");
    const refused = await run(`${command} --json --resume ${from}`);
    expect(refused.json.at(-1)).toMatchObject({
      type: "error",
      hint: expect.stringContaining("--discard-later") as string,
    });
    const split = await run(`${command} --json --resume ${from} --name ${named("split")}`);
    expect(split.json[0]).toMatchObject({ run: named("split"), resumedAfter: 2 });
    expect((await run(`${command} --json --resume ${named("split")} --epochs 4`)).json.at(-1)).toMatchObject({
      steps: 4,
    });
    expect((await run(`${command} --json --resume ${from} --discard-later`)).json[0]).toMatchObject({
      run: named("later"),
      resumedAfter: 2,
    });
  });
  flag(`${command} --dry-run`, async () => {
    const { stdout, status } = await run(`${command} ${sourceOf(command)} --dry-run --name ${named("planned")}`);
    expect(status).toBe(0);
    expect(stdout).toMatch(/Plan \(nothing is (kept and nothing )?trained\)/);
    expect(stdout).toMatch(/time +about /);
    expect(existsSync(join(cwd, "runs", named("planned")))).toBe(false);
    const [plan] = (await learn(command, "--dry-run --epochs 3 --batch-size 4")).json;
    if (command === "best-of-n") expect(plan).toMatchObject({ type: "plan", scenarios: 2, n: 3, conversations: 6 });
    else
      expect(plan).toMatchObject({
        type: "plan",
        steps: 6,
        settings: { epochs: 3 },
        memory: { total: expect.any(Number) as number },
      });
  });
  flag(`${command} --model`, async () => {
    await learn(command, `--name ${named("model")} --model ${place.other}`);
    expect(runConfig(named("model")).model.name).toBe(place.other);
    expect((await run(`${command} ${sourceOf(command)} --model ./nowhere`)).status).toBe(4);
  });
  flag(`${command} --checkpoint`, async () => {
    await learn("sft", `--name ${named("before")} --lora 2`);
    await learn(command, `--name ${named("after")} --checkpoint ${named("before")}`);
    const { model } = runConfig(named("after"));
    expect(model).toMatchObject({ name: join(cwd, "runs", named("before"), "final"), lora: { rank: 2 } });
    const both = await run(`${command} ${sourceOf(command)} --checkpoint last --model ${place.model}`);
    expect(both.stderr).toContain("--model and --checkpoint both say");
  });
  flag(`${command} --lora`, async () => {
    await learn(command, `--name ${named("lora")} --lora 3`);
    expect(runConfig(named("lora")).model.lora).toMatchObject({ rank: 3, alpha: 6 });
    await learn(command, `--name ${named("lora-16")} --lora`);
    expect(runConfig(named("lora-16")).model.lora).toMatchObject({ rank: 16, alpha: 32 });
    expect((await run(`${command} ${sourceOf(command)} --lora 0`)).status).toBe(2);
    const twice = await run(`${command} ${sourceOf(command)} --lora --checkpoint ${named("lora-16")}`);
    if (command !== "reward-model") expect(twice.stderr).toContain("is an adapter already");
  });
  engineFlags(command, (flags) => run(`${command} ${sourceOf(command)} ${flags}`));
  flag(`${command} --threads`, async () => {
    expect((await run(`${command} ${sourceOf(command)} --threads 0`)).stderr).toContain("agent.threads");
    expect((await learn(command, `--threads 1 --name ${named("threads")}`)).status).toBe(0);
  });
  flag(`${command} --tracker`, async () => {
    await learn(command, `--name ${named("tracked")} --tracker tensorboard`);
    expect(files(named("tracked"))).toContain("tensorboard");
  });
  const settings: [string, string, (settings: Json) => unknown, unknown][] = [
    ["seed", "17", ({ seed }) => seed, 17],
    ["epochs", "2", ({ epochs }) => epochs, 2],
    ["batch-size", "2", ({ batchSize }) => batchSize, 2],
    ["learning-rate", "0.003", ({ learningRate }) => learningRate, 0.003],
    ["set", "checkpoint.every=2", ({ checkpoint }) => checkpoint.every, 2],
  ];
  for (const [name, value, read, expected] of settings) {
    flag(`${command} --${name}`, async () => {
      const { start } = await started(command, `--name ${named(name)} --${name} ${value}`);
      expect(read(start.settings)).toBe(expected);
      expect((await run(`${command} --${name} nonsense`)).status).toBe(2);
    });
  }
  flag(`${command} --json`, async () => {
    const { stdout, json } = await learn(command, `--name ${named("events")}`);
    expect(stdout.trimEnd().split("\n")).toHaveLength(json.length);
    expect(json.map(({ type }) => type)).toEqual(
      expect.arrayContaining(["start", "step", "checkpoint", "end", "result"]),
    );
    const misspelt = await learn(command, "--set epoch=1");
    expect(misspelt.stderr).toBe("");
    expect(misspelt.json.at(-1)).toMatchObject({
      type: "error",
      code: "INVALID_OPTION",
      hint: 'Did you mean "epochs"?',
      status: 2,
    });
  });
});

describe.each(Object.keys(dataFiles) as (keyof typeof dataFiles)[])("%s", (command) => {
  const { data, heldOut } = dataFiles[command];
  flag(`${command} --data`, async () => {
    const { status, stderr } = await run(command);
    expect(status).toBe(2);
    expect(stderr).toContain("→ Give --data <file>");
    expect((await run(`${command} --data nowhere.jsonl`)).status).toBe(3);
    const plan = (await run(`${command} --json --dry-run --data ${data}`)).json[0]!;
    expect(plan.examples).toBe(readFileSync(join(cwd, data), "utf8").trim().split("\n").length);
  });
  flag(`${command} --skip-bad`, async () => {
    writeFileSync(join(cwd, `bad-${data}`), `{"nothing": 1}\nnot JSON\n${readFileSync(join(cwd, data), "utf8")}`);
    const refused = await run(`${command} --dry-run --data bad-${data}`);
    expect([refused.status, refused.stderr]).toEqual([3, expect.stringContaining(`bad-${data}, line 1`)]);
    const { json } = await run(`${command} --json --dry-run --skip-bad --data bad-${data}`);
    expect(json[0]).toMatchObject({
      type: "skipped",
      skipped: 2,
      problems: [expect.stringContaining("line 1") as string, expect.stringContaining("line 2") as string],
    });
    expect(json[1]).toMatchObject({ type: "plan", examples: json[0]!.of - 2 });
    const { stderr } = await run(`${command} --dry-run --skip-bad --data bad-${data}`);
    expect(stderr).toMatch(/^! 2 of \d+ entries of .* were left out: /);
  });
  flag(`${command} --held-out`, async () => {
    const result = (await learn(command, `--name ${command}-held --held-out ${heldOut} --learning-rate 0.01`)).json.at(
      -1,
    )!;
    expect(result.heldOut.before.loss).toBeGreaterThan(0);
    expect(result.heldOut.after.loss).not.toBe(result.heldOut.before.loss);
  });
});

describe("the flags of one of them", () => {
  flag("sft --min-reward", async () => {
    await run("train --json --name played --steps 2 --set trajectories.every=1");
    const count = async (args: string) => {
      // A reply may be empty, and then has nothing to learn from.
      const { examples, dropped } = (await run(`sft --json --dry-run --data played${args}`)).json[0]!;
      return examples + dropped;
    };
    const rewards = [1, 2].flatMap((step) =>
      readFileSync(join(cwd, `runs/played/trajectories/step-00000${step}.jsonl`), "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line).reward.score as number),
    );
    const middle = rewards.toSorted((a, b) => a - b)[rewards.length >> 1]!;
    expect(await count("")).toBe(rewards.length);
    expect(await count(` --min-reward ${middle}`)).toBe(rewards.filter((reward) => reward >= middle).length);
    // What it chose stays chosen when it goes on, whoever said it.
    await run(`sft --json --data played --min-reward ${middle} --name chosen`);
    expect((await run("sft --json --resume chosen --epochs 2")).json.at(-1)).toMatchObject({ status: "finished" });
    const text = readFileSync(join(cwd, "stateset.config.yaml"), "utf8");
    writeFileSync(join(cwd, "chooses.yaml"), `${text}sft: { min_reward: ${middle} }\n`);
    await run("sft --json --data played --config chooses.yaml --name chosen-there");
    const there = await run("sft --json --resume chosen-there --epochs 2");
    expect(there.json.at(-1)).toMatchObject({ status: "finished" });
    expect((await run("sft --data played --min-reward 9")).stderr).toContain("The highest reward of the");
    expect((await run("sft --data chats.jsonl --min-reward 1")).stderr).toContain("have no rewards to choose by");
  });
  flag("best-of-n --skip-bad", async () => {
    writeFileSync(join(cwd, "scenes.jsonl"), '{"id": 3}\n{"id": "good", "userResponses": ["say red"]}\n');
    const text = readFileSync(join(cwd, "stateset.config.yaml"), "utf8");
    const named = text.replace(/scenarios:\n[\s\S]*?heldOut/, "scenarios: scenes.jsonl\nheldOut");
    writeFileSync(join(cwd, "from-file.yaml"), named);
    expect((await run("best-of-n --dry-run --config from-file.yaml")).stderr).toContain("scenes.jsonl, line 1");
    const { json } = await run("best-of-n --json --dry-run --n 2 --config from-file.yaml --skip-bad");
    expect(json).toMatchObject([
      { type: "skipped", skipped: 1, of: 2 },
      { type: "plan", scenarios: 1 },
    ]);
  });
  flag("dpo --loss", async () => {
    await learn("dpo", "--name ipo --loss ipo");
    expect(runConfig("ipo").learner).toBe("ipo");
    expect((await run("dpo --loss hinge")).status).toBe(2);
    expect((await run("dpo --json --resume ipo --epochs 2")).json.at(-1)).toMatchObject({ status: "finished" });
  });
  flag("dpo --beta", async () => {
    expect((await started("dpo", "--name beta --beta 0.7")).start.settings.beta).toBe(0.7);
  });
  flag("best-of-n --n", async () => {
    const { json } = await run("best-of-n --json --n 4 --name four");
    expect(json[0]).toMatchObject({ type: "harvest", scenarios: 2, of: 2, sampled: 8, kept: 2 });
    expect(json.at(-1)!.harvest.keptReward).toBeGreaterThan(json.at(-1)!.harvest.sampledReward);
    const kept = readFileSync(join(cwd, "runs/four/harvest/trajectories/step-000002.jsonl"), "utf8").trim().split("\n");
    expect(kept).toHaveLength(2);
    // What it kept can be learnt from again.
    expect((await run("sft --json --dry-run --data four")).json[0]).toMatchObject({ examples: 2 });
    expect((await run("best-of-n --resume four --n 5")).stderr).toContain("--n cannot be given here");
  });
  flag("best-of-n --keep", async () => {
    const { json } = await run("best-of-n --json --n 4 --keep 2 --set aboveMean=false --name two");
    expect(json[0]).toMatchObject({ type: "harvest", sampled: 8, kept: 4 });
  });
  flag("best-of-n --min-reward", async () => {
    const { json, status } = await run("best-of-n --json --n 3 --min-reward 100 --name none");
    expect(status).toBe(3);
    expect(json.at(-1)).toMatchObject({
      type: "error",
      message: expect.stringContaining("kept no conversation") as string,
    });
  });
  flag("best-of-n --reward", async () => {
    await learn("reward-model", "--name taste");
    const { json } = await run("best-of-n --json --n 3 --reward taste --name by-taste");
    expect(json.at(-1)).toMatchObject({ status: "finished" });
    expect((await run("best-of-n --reward nowhere")).stderr).toContain("There is no reward at");
  });
});

it("takes its settings from its section of the configuration, whose paths are beside it", async () => {
  const dir = await learnFolder(place.model);
  const config = join(dir, "stateset.config.yaml");
  const text = readFileSync(config, "utf8");
  writeFileSync(
    config,
    `${text}sft: { data: chats.jsonl, held_out: other-chats.jsonl, batch_size: 3, name: from-config }\n`,
  );
  const { json } = await run(`sft --json --config ${config} --epochs 2`);
  expect(json[0]).toMatchObject({ run: "from-config", settings: { batchSize: 3, epochs: 2 } });
  expect(json.at(-1)).toMatchObject({ steps: 4, heldOut: { before: { tokens: expect.any(Number) as number } } });
  writeFileSync(config, `${text}sft: { data: chats.jsonl, batchsize: 3 }\n`);
  // Also where another command reads the file.
  const misspelt = await run(`train --json --dry-run --config ${config}`);
  expect(misspelt.json.at(-1)).toMatchObject({ code: "INVALID_OPTION", hint: 'Did you mean "batchSize"?' });
  writeFileSync(config, `${text}sft: chats.jsonl\n`);
  expect((await run(`sft --json --config ${config}`)).json.at(-1)).toMatchObject({
    message: expect.stringContaining("is no group of settings") as string,
    hint: "Write sft: { data: <file> }.",
  });
});

it("counts one step as one", async () => {
  expect((await run("sft --data chats.jsonl --name once")).stdout).toContain("Done: 1 step.");
});

it.each(["sft", "reward-model"] as const)("runs show says what comes after a run of %s", async (command) => {
  await learn(command, `--name shown-${command}`);
  const next = command === "sft" ? "chat --checkpoint" : "train --reward";
  expect((await run(`runs show shown-${command}`)).stdout).toContain(
    `next: npx stateset-agents ${next} runs/shown-${command}`,
  );
});

complete();

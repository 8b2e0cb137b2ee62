/** One test for every flag that --help shows; the last test fails when a flag has none. */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type CliResult, chatModel, cli, type Json, tableProject } from "../../test/cli.ts";
import { temporaryFolder } from "../../test/tiny-model.ts";
import { processIo } from "./io.ts";
import { allCommands, createProgram } from "./program.ts";

let dir: string;
let model: string;
let other: string;
const tested = new Set<string>();
beforeAll(async () => {
  dir = await temporaryFolder();
  model = await chatModel(1);
  other = await chatModel(2);
  await tableProject(dir);
});

const run = (args: string, options: { cwd?: string; input?: string; tty?: boolean } = {}): Promise<CliResult> =>
  cli(
    args.split(" ").map((part) => part.replaceAll("␣", " ")),
    { cwd: options.cwd ?? dir, ...options },
  );

/** Declares the test of one flag: `flag("train --steps", …)`. */
function flag(name: string, test: () => Promise<void>): void {
  tested.add(name);
  it(name, test);
}

const trained = (args: string) => run(`train --json ${args}`);
/** The resolved configuration a run started with. */
const configOf = async (args: string): Promise<Json> => {
  const result = await trained(args);
  expect(result.stderr).toBe("");
  return result.json.find(({ type }) => type === "start")!;
};

describe("train", () => {
  flag("train --config", async () => {
    const elsewhere = await tableProject(join(dir, "elsewhere"), { training: { steps: 1, seed: 41 } });
    const { config } = await configOf(`--name config --config ${join(elsewhere, "stateset.config.ts")}`);
    expect(config).toMatchObject({ steps: 1, seed: 41 });
  });
  flag("train --name", async () => {
    expect((await configOf("--steps 1 --name called")).run).toBe("called");
    expect(existsSync(join(dir, "runs/called/metrics.jsonl"))).toBe(true);
  });
  flag("train --resume", async () => {
    await trained("--name whole --steps 4 --seed 3");
    await trained("--name part --steps 2 --seed 3");
    const resumed = await trained(`--resume ${join(dir, "runs/part")} --steps 4`);
    expect(resumed.json[0]).toMatchObject({ type: "start", run: "part", resumedAfter: 2 });
    // Without a value it takes the newest run, which is this one and has nothing left to do.
    expect((await trained("--resume")).json[0]).toMatchObject({ run: "part", resumedAfter: 4 });
  });
  flag("train --save", async () => {
    await trained("--steps 1 --name saving --save out/agent");
    expect(existsSync(join(dir, "out/agent/agent.json"))).toBe(true);
  });
  flag("train --dry-run", async () => {
    const plan = await run("train --dry-run --steps 7 --name planned");
    expect(plan.stdout).toMatch(/Plan \(nothing is trained\)/);
    expect(plan.stdout).toMatch(/steps +7 × 2 groups × 4 = 56 conversations/);
    expect(plan.stdout).toMatch(/memory +about .* fits in/);
    expect(plan.stdout).toMatch(/time +about /);
    expect(existsSync(join(dir, "runs/planned"))).toBe(false);
    const [json] = (await run("train --dry-run true --json")).json;
    expect(json).toMatchObject({ type: "plan", scenarios: 3, heldOut: 2, reward: "polite" });
    await run("train --dry-run false --steps 1 --name really");
    expect(existsSync(join(dir, "runs/really"))).toBe(true);
    expect((await run("train --dry-run perhaps")).status).toBe(2);
  });
  it("train --dry-run plans what the run will do", async () => {
    const cwd = await tableProject(join(dir, "plans"), { training: { groupSize: undefined, seed: 8 } });
    const first = async (args: string) => (await run(`train --json ${args}`, { cwd })).json[0]!;
    const planned = await first("--dry-run --algorithm gspo --steps 2");
    const { config } = await first("--algorithm gspo --steps 2 --name g --set epsilonHigh=0.1 --profile conservative");
    expect(planned.config.groupSize).toBe(config.groupSize);
    expect(planned.resumedAfter).toBeNull();
    // A resumed run goes on with its own settings, with as many steps as are left.
    const resumed = await first("--dry-run --resume runs/g --steps 5 --set epsilonLow=0.2");
    expect(resumed.config).toEqual({ ...config, steps: 5 });
    expect(resumed.algorithm).toMatchObject({ algorithm: "gspo", epsilonLow: 0.2, epsilonHigh: 0.1 });
    expect(resumed).toMatchObject({ resumedAfter: 2, conversations: 3 * 2 * config.groupSize });
    // autoAdjust may turn the KL penalty on, so the run keeps a reference.
    const reference = async (args: string) =>
      (await run(`train --dry-run --json --model ${model}${args}`, { cwd: await optionsProject() })).json[0]!.memory
        .reference;
    expect(await reference("")).toBe(0);
    expect(await reference(" --auto-adjust")).toBeGreaterThan(0);
  });
  flag("train --stub", async () => {
    const empty = await temporaryFolder();
    const result = await run("train --stub --name try", { cwd: empty });
    expect(result.status).toBe(0);
    expect(result.stdout).toContain("STUB: nothing is learnt");
    expect(result.stdout).toContain("This was a stub");
    expect(existsSync(join(empty, "runs/try/final"))).toBe(false);
  });
  flag("train --profile", async () => {
    expect((await configOf("--steps 1 --name careful --profile conservative")).config).toMatchObject({
      profile: "conservative",
      clipNorm: 0.5,
    });
    expect((await run("train --profile reckless")).stderr).toContain("Allowed choices are conservative, balanced");
  });
  flag("train --auto-adjust", async () => {
    await trained("--steps 2 --name adjusted --auto-adjust");
    expect(JSON.parse(readFileSync(join(dir, "runs/adjusted/cli.json"), "utf8"))).toMatchObject({ autoAdjust: true });
    const state = readFileSync(join(dir, "runs/adjusted/checkpoints/step-000002/state.json"), "utf8");
    expect(JSON.parse(state).callbacks).toHaveProperty("auto-adjust");
  });
  it("train shows a verdict for as long as it holds", async () => {
    // The same reward for the evaluation before training and for two steps, then one that tells replies apart.
    const rest = `reward: rewardFunction({ name: "late" }, ({ turns }) => (++calls > 4 + 16 ? turns[1]!.content.length : 0)),`;
    const cwd = await tableProject(join(dir, "recovering"), { head: "let calls = 0;", rest });
    const args = ["train", "--steps", "4", "--name", "recovers"];
    const { stdout } = await cli(args, { cwd, tty: true, env: { NO_COLOR: "1" } });
    expect(stdout).toContain("no-signal since step 2");
    expect(stdout.slice(stdout.lastIndexOf("step     "))).not.toContain("no-signal");
  });
  flag("train --no-auto-adjust", async () => {
    const cwd = await tableProject(join(dir, "adjusting"), { rest: "autoAdjust: true," });
    const watchers = async (args: string) => {
      await run(`train --json --steps 1 ${args}`, { cwd });
      const state = readFileSync(join(cwd, "runs/own/checkpoints/step-000001/state.json"), "utf8");
      return Object.keys(JSON.parse(state).callbacks);
    };
    expect(await watchers("--name own")).toEqual(["auto-adjust"]);
    rmSync(join(cwd, "runs/own"), { recursive: true });
    expect(await watchers("--name own --no-auto-adjust")).toEqual(["diagnostics"]);
  });
  flag("train --tracker", async () => {
    await trained("--steps 1 --name tracked --tracker tensorboard wandb");
    expect(readdirSync(join(dir, "runs/tracked/tensorboard"))).toHaveLength(1);
    expect(readdirSync(join(dir, "runs/tracked/wandb"))[0]).toMatch(/^offline-run-.*-tracked$/);
  });
  flag("train --model", async () => {
    const cwd = await optionsProject();
    expect((await run("train --dry-run --model /no/such/model", { cwd })).stderr).toContain("/no/such/model");
    const [plan] = (await run(`train --dry-run --json --model ${model}`, { cwd })).json;
    expect(plan).toMatchObject({ model: { name: model, architecture: "llama" } });
  });
  flag("train --threads", async () => {
    const cwd = await optionsProject();
    expect((await run("train --dry-run --threads 0", { cwd })).stderr).toContain("agent.threads");
    expect((await run(`train --dry-run --model ${model} --threads 1`, { cwd })).status).toBe(0);
  });
  flag("train --algorithm", async () => {
    expect((await configOf("--steps 1 --name other --algorithm dr-grpo")).algorithm.name).toBe("dr-grpo");
    expect((await run("train --algorithm grppo")).status).toBe(2);
    // What the project sets for its own algorithm says nothing about another one, unlike what stands on the command line.
    const cwd = await tableProject(join(dir, "dapo"), {
      training: { algorithm: "dapo", epsilonLow: 0.25, overlongPenalty: 0.5, steps: 1 },
    });
    const plan = async (args: string) => (await run(`train --dry-run --json ${args}`, { cwd })).json[0]!.algorithm;
    expect(await plan("--algorithm dapo")).toMatchObject({ algorithm: "dapo", epsilonLow: 0.25, overlongPenalty: 0.5 });
    const gspo = await plan("--algorithm gspo --set epsilonHigh=0.1");
    expect(gspo).toMatchObject({ algorithm: "gspo", epsilonLow: 3e-4, epsilonHigh: 0.1 });
    expect(gspo).not.toHaveProperty("overlongPenalty");
  });
  const settings: [string, string, (config: Json) => unknown, unknown][] = [
    ["seed", "17", ({ seed }) => seed, 17],
    ["steps", "2", ({ steps }) => steps, 2],
    ["episodes", "16", ({ steps }) => steps, 2],
    ["learning-rate", "0.003", ({ learningRate }) => learningRate, 0.003],
    ["group-size", "3", ({ groupSize }) => groupSize, 3],
    ["groups-per-step", "1", ({ groupsPerStep }) => groupsPerStep, 1],
    ["max-tokens", "2", ({ sampling }) => sampling.maxTokens, 2],
    ["temperature", "0.7", ({ sampling }) => sampling.temperature, 0.7],
    ["kl", "0.25", ({ kl }) => kl.coefficient, 0.25],
    ["set", "checkpoint.every=2", ({ checkpoint }) => checkpoint.every, 2],
  ];
  for (const [name, value, read, expected] of settings) {
    flag(`train --${name}`, async () => {
      const steps = name === "steps" || name === "episodes" ? "" : "--steps 1 ";
      expect(read((await configOf(`${steps}--name with-${name} --${name} ${value}`)).config)).toBe(expected);
      expect((await run(`train --${name} nonsense`)).status).toBe(2);
    });
  }
  flag("train --json", async () => {
    const { stdout, json } = await trained("--steps 1 --name events");
    expect(stdout.trimEnd().split("\n")).toHaveLength(json.length);
    const types = json.map(({ type }) => type);
    expect([types[0], types.at(-2), types.at(-1)]).toEqual(["start", "end", "result"]);
    expect(types).toEqual(expect.arrayContaining(["step", "checkpoint", "evaluation"]));
    expect(json.at(-1)).toMatchObject({ status: "finished", steps: 1, heldOut: { before: { count: 1 } } });
  });
});

describe("evaluate", () => {
  flag("evaluate --checkpoint", async () => {
    const { stdout, status } = await run(`evaluate --checkpoint ${model} --message hello --max-tokens 5`);
    expect(status).toBe(0);
    expect(stdout.trim().length).toBeGreaterThan(0);
  });
  it("evaluate --checkpoint last takes the newest finished run", async () => {
    const cwd = await temporaryFolder();
    const reply = (checkpoint: string) =>
      run(`evaluate --checkpoint ${checkpoint} --message hello --max-tokens 12 --temperature 2`, { cwd });
    expect((await reply("last")).stderr).toContain("There is no finished run");
    for (const [name, time, final] of [
      ["b-old", 1, model],
      ["a-new", 2, other],
      ["c-unfinished", 3, undefined],
    ] as const) {
      const folder = join(cwd, "runs", name);
      mkdirSync(folder, { recursive: true });
      writeFileSync(join(folder, "config.json"), JSON.stringify({ id: name }));
      writeFileSync(join(folder, "metrics.jsonl"), "");
      utimesSync(join(folder, "metrics.jsonl"), time, time);
      if (final !== undefined) cpSync(final, join(folder, "final"), { recursive: true });
    }
    expect((await reply("last")).stdout).toBe((await reply(other)).stdout);
    expect((await reply("last")).stdout).not.toBe((await reply(model)).stdout);
  });
  flag("evaluate --compare", async () => {
    const args = `evaluate --checkpoint ${model} --compare ${other} --samples 2 --max-tokens 6`;
    const table = await run(args);
    expect(table.stdout).toMatch(/b − a +[+-]\d.* over 2 scenarios/);
    expect(table.stdout).toMatch(/Chance explains|is better/);
    const [json] = (await run(`${args} --json`)).json;
    expect(json).toMatchObject({ comparison: { reward: { pValue: expect.any(Number) as number, verdict: "same" } } });
  });
  flag("evaluate --message", async () => {
    expect((await run("evaluate --stub --message hi")).stdout).toContain("scripted reply from a stub");
  });
  flag("evaluate --input", async () => {
    writeFileSync(
      join(dir, "in.jsonl"),
      '"first"\n{"message": "second"}\n{"messages": [{"role": "user", "content": "third"}]}\n',
    );
    const { json } = await run("evaluate --stub --json --input in.jsonl");
    expect(json.map(({ messages }) => messages[0].content)).toEqual(["first", "second", "third"]);
    expect(json[0]).toHaveProperty("stub", true);
    writeFileSync(join(dir, "list.json"), '["only"]');
    expect((await run("evaluate --stub --input list.json")).stdout).toContain("> only");
    writeFileSync(join(dir, "bad.jsonl"), '"fine"\n{"role": 1}\n');
    expect((await run("evaluate --stub --input bad.jsonl")).stderr).toContain("bad.jsonl, line 2 is no message");
  });
  flag("evaluate --scenarios", async () => {
    writeFileSync(join(dir, "scenes.jsonl"), '{"id": "one", "userResponses": ["hello"]}\n');
    expect((await run("evaluate --stub --scenarios scenes.jsonl --samples 1")).stdout).toMatch(/one +0\.000/);
    expect((await run("evaluate --stub --scenarios --samples 1")).stdout).toMatch(/held-1/);
  });
  flag("evaluate --config", async () => {
    const elsewhere = await tableProject(join(dir, "elsewhere-2"));
    const empty = await temporaryFolder();
    const result = await run(
      `evaluate --stub --scenarios --samples 1 --config ${join(elsewhere, "stateset.config.ts")}`,
      { cwd: empty },
    );
    expect(result.stdout).toContain("held-1");
  });
  flag("evaluate --samples", async () => {
    const [json] = (await run("evaluate --stub --scenarios --samples 3 --json")).json;
    expect(json).toMatchObject({ scenarios: [{ samples: 3 }, { samples: 3 }], stub: true });
  });
  flag("evaluate --seed", async () => {
    const reply = async (seed: number) =>
      (await run(`evaluate --checkpoint ${model} --message hello --max-tokens 12 --seed ${seed}`)).stdout;
    expect(await reply(1)).toBe(await reply(1));
    expect(await reply(1)).not.toBe(await reply(2));
  });
  flag("evaluate --temperature", async () => {
    const reply = async (t: string) =>
      (await run(`evaluate --checkpoint ${model} --message hello --max-tokens 12 --temperature ${t}`)).stdout;
    expect(await reply("0.01")).not.toBe(await reply("3"));
    expect((await run("evaluate --temperature hot")).status).toBe(2);
  });
  flag("evaluate --max-tokens", async () => {
    const length = async (n: number) =>
      (await run(`evaluate --checkpoint ${model} --message hello --max-tokens ${n}`)).stdout.length;
    expect(await length(2)).toBeLessThan(await length(30));
  });
  flag("evaluate --threads", async () => {
    const reply = async (n: number) =>
      (await run(`evaluate --checkpoint ${model} --message hello --max-tokens 12 --threads ${n}`)).stdout;
    expect(await reply(1)).toBe(await reply(2));
    expect((await run(`evaluate --checkpoint ${model} --message hello --threads 0`)).stderr).toContain("agent.threads");
  });
  flag("evaluate --output", async () => {
    await run("evaluate --stub --scenarios --samples 1 --output result.json");
    expect(JSON.parse(readFileSync(join(dir, "result.json"), "utf8"))).toMatchObject({ reward: { count: 2 } });
  });
  flag("evaluate --stub", async () => {
    const { stdout } = await run("evaluate --stub --scenarios --samples 1");
    expect(stdout).toContain("A stub made these replies up");
  });
  flag("evaluate --json", async () => {
    expect((await run("evaluate --stub --message hi --json")).json[0]).toMatchObject({
      reply: expect.any(String) as string,
      stub: true,
    });
  });
});

describe("chat", () => {
  flag("chat --checkpoint", async () => {
    expect((await run(`chat --checkpoint ${model} --max-tokens 4`, { input: "hello\n" })).stdout).toMatch(
      /^agent ▸ .+/,
    );
    const two = await run(`chat --checkpoint ${model} ${other} --max-tokens 4`, { input: "hello\n" });
    expect(two.stdout).toMatch(/a {2}.+ │ b {2}/);
    expect((await run(`chat --checkpoint ${model} ${model} ${model}`)).stderr).toContain("one or two agents, not 3");
  });
  flag("chat --config", async () => {
    const empty = await temporaryFolder();
    const result = await run(`chat --config ${join(dir, "stateset.config.ts")}`, { cwd: empty, input: "help order\n" });
    expect(result.status).toBe(0);
    expect(result.stdout).toContain("agent ▸");
  });
  flag("chat --temperature", async () => {
    const reply = async (t: string) =>
      (await run(`chat --checkpoint ${model} --max-tokens 12 --seed 1 --temperature ${t}`, { input: "hello\n" }))
        .stdout;
    expect(await reply("0.01")).not.toBe(await reply("3"));
  });
  flag("chat --max-tokens", async () => {
    const length = async (n: number) =>
      (await run(`chat --checkpoint ${model} --seed 1 --max-tokens ${n}`, { input: "hello\n" })).stdout.length;
    expect(await length(2)).toBeLessThan(await length(30));
  });
  flag("chat --seed", async () => {
    const talk = async (seed: number) =>
      (await run(`chat --checkpoint ${model} --max-tokens 8 --seed ${seed}`, { input: "hello\nhello\n" })).stdout;
    expect(await talk(1)).toBe(await talk(1));
    expect(await talk(1)).not.toBe(await talk(2));
  });
  flag("chat --threads", async () => {
    expect((await run(`chat --checkpoint ${model} --threads 0`, { input: "hi\n" })).stderr).toContain("agent.threads");
  });
  flag("chat --stub", async () => {
    const { stdout } = await run("chat --stub", { input: "hi\n/undo\n/reset\n/exit\nunseen\n" });
    expect(stdout).toContain("scripted reply from a stub");
    expect(stdout.match(/agent ▸/g)).toHaveLength(1);
  });
  flag("chat --json", async () => {
    const { json } = await run("chat --stub --json", { input: "one\ntwo\n" });
    expect(json.map(({ message }) => message)).toEqual(["one", "two"]);
  });
});

describe("the agent of a project", () => {
  it.each(["evaluate --message hello", "chat"])("takes the sampling flags of %s", async (command) => {
    const cwd = await temporaryFolder();
    const project = { agent: { model, sampling: { max_tokens: 12 } }, environment: { preset: "sales" } };
    writeFileSync(join(cwd, "stateset.config.json"), JSON.stringify(project));
    const reply = async (args: string) => (await run(`${command} ${args}`, { cwd, input: "hello\n" })).stdout;
    const plain = await reply("--seed 1");
    expect(plain).toBe(await reply("--seed 1 --max-tokens 12"));
    expect(plain).not.toBe(await reply("--seed 2"));
    expect(plain).not.toBe(await reply("--seed 1 --temperature 5"));
    expect((await reply("--seed 1 --max-tokens 2")).length).toBeLessThan(plain.length);
    // An Agent object may do anything with its options, so they are not changed behind its back.
    const refused = await run(`${command} --temperature 2 --max-tokens 3`, { input: "hello\n" });
    expect(refused.stderr).toContain("--temperature and --max-tokens cannot change the agent");
  });
});

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
    expect((await run(`runs list --dir ${join(runs, "runs")}`)).stdout).toMatch(/✓ a +grpo +2\/2/);
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
  flag("runs diff --dir", async () => {
    const { stdout } = await run(`runs diff a b --dir ${join(runs, "runs")}`);
    expect(stdout).toMatch(/kl\.coefficient +0 +0\.1/);
    expect(stdout).toMatch(/steps +2 +3/);
    expect(stdout).not.toContain("groupSize");
  });
  flag("runs diff --json", async () => {
    expect((await inRuns("diff a b --json")).json[0]).toMatchObject({
      settings: [{ path: "kl.coefficient" }, { path: "steps", a: 2, b: 3 }],
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

describe("init", () => {
  let place: string;
  beforeAll(async () => {
    place = await temporaryFolder();
  });
  const init = (args: string) => run(`init ${args}`, { cwd: place });
  const read = (path: string) => readFileSync(join(place, path), "utf8");

  flag("init --template", async () => {
    for (const template of ["support", "tech-support", "sales", "tools", "custom"]) {
      expect((await init(`${template} --yes --template ${template}`)).status).toBe(0);
      // Each is a project that loads, plans and plays at once, here with scripted replies.
      const play = () =>
        run("train --stub --json --steps 1 --set groupsPerStep=1 --set groupSize=2", { cwd: join(place, template) });
      const played = await play();
      expect(played.stderr).toBe("");
      expect(played.json.at(-1)).toMatchObject({ type: "result", stub: true, heldOut: { before: {} } });
      // And again: the first run is not in the way of a second.
      expect((await play()).status).toBe(0);
    }
  });
  flag("init --model", async () => {
    await init("big --yes --model Qwen/Qwen3-0.6B");
    expect(read("big/stateset.config.ts")).toContain('model: "Qwen/Qwen3-0.6B", lora: true');
  });
  flag("init --path", async () => {
    await init("--yes --path somewhere");
    expect(JSON.parse(read("somewhere/package.json"))).toMatchObject({ name: "somewhere", type: "module" });
    expect((await init("--path config.yaml")).stdout).toContain("train --config config.yaml");
    const played = await run("train --stub --json --config config.yaml --steps 1 --groups-per-step 1 --group-size 2", {
      cwd: place,
    });
    expect(played.json.at(-1)).toMatchObject({ type: "result" });
  });
  flag("init --yes", async () => {
    expect((await init("--yes")).stdout).toContain("+ my-agent/stateset.config.ts");
  });
  flag("init --force", async () => {
    expect((await init("--yes")).stderr).toContain("is not empty");
    expect((await init("--yes --force")).status).toBe(0);
  });
  flag("init --json", async () => {
    expect((await init("listed --json")).json[0]).toMatchObject({
      next: ["cd listed", "npm install", "npm run train"],
    });
  });
});

describe("doctor and version", () => {
  flag("doctor --model", async () => {
    const checked = await run(`doctor --model ${model}`);
    expect(checked.stdout).toMatch(/Model +.* parameters/);
    const missing = await run("doctor --model /no/such/model");
    expect(missing.stdout).toMatch(/✗ Model/);
    expect(missing.stdout).toMatch(/→ give a folder with config\.json/);
  });
  flag("doctor --json", async () => {
    const [json] = (await run("doctor --json")).json;
    expect(json!.checks.map(({ name }: Json) => name)).toEqual([
      "Node",
      "Engine",
      "Threads",
      "Model",
      "Memory",
      "Disk",
      "Python",
      "GPU",
    ]);
  });
  it("doctor says what Python is for", async () => {
    const { stdout } = await cli(["doctor", "--model", model], {
      cwd: dir,
      env: { STATESET_PYTHON: "/no/such/python" },
    });
    expect(stdout).toMatch(/Python +\/no\/such\/python not found \(not needed; only the comparisons with PyTorch in/);
  });
  flag("version --json", async () => {
    expect((await run("version --json")).json[0]).toMatchObject({ node: process.versions.node });
  });
  flag("--version", async () => {
    expect((await run("--version")).stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
  });
});

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
    expect(result.json[0]!.config.steps).toBe(1);
  });
  flag("demo --seed", async () => {
    expect(result.json[0]!.config.seed).toBe(5);
  });
  flag("demo --reward", async () => {
    // Nothing can be learnt from a constant: the agent stays as it was.
    expect(result.json.at(-1)!.after).toEqual(result.json.at(-1)!.before);
    expect((await run("demo --reward kind")).stderr).toContain("Allowed choices are polite, flipped, constant");
  });
  flag("demo --threads", async () => {
    expect((await run("demo --threads 0 --steps 1")).stderr).toContain("agent.threads");
  });
});

async function optionsProject(): Promise<string> {
  const cwd = await temporaryFolder();
  writeFileSync(
    join(cwd, "stateset.config.yaml"),
    "environment:\n  preset: customer_service\nreward:\n  politeness: 1\ntraining:\n  group_size: 2\n  groups_per_step: 1\n  steps: 1\n",
  );
  return cwd;
}

describe("every flag", () => {
  afterAll(() => tested.clear());
  it("of --help has a test above, and --help is answered everywhere", async () => {
    const program = createProgram(processIo());
    const flags: string[] = [];
    for (const command of allCommands(program)) {
      const path: string[] = [];
      for (let at: typeof command | null = command; at?.parent; at = at.parent) path.unshift(at.name());
      for (const option of command.createHelp().visibleOptions(command)) {
        if (option.long !== "--help") flags.push([...path, option.long].join(" "));
      }
      const help = await run([...path, "--help"].join(" "));
      expect(help.status).toBe(0);
      expect(help.stdout).toContain("Usage: stateset-agents");
    }
    expect(flags.filter((name) => !tested.has(name))).toEqual([]);
    expect([...tested].filter((name) => !flags.includes(name))).toEqual([]);
  });
});

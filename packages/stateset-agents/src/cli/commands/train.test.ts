import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { cli, type Json, tableProject } from "../../../test/cli.ts";
import { flagTests } from "../../../test/flags.ts";
import { learnFolder } from "../../../test/learn-data.ts";
import { makeTinyModel, temporaryFolder } from "../../../test/tiny-model.ts";
import { exportGguf } from "../../policy/gguf/export-gguf.ts";

const { place, run, flag, engineFlags, complete } = flagTests("train");

const trained = (args: string) => run(`train --json ${args}`);
/** The resolved configuration a run started with. */
const configOf = async (args: string): Promise<Json> => {
  const result = await trained(args);
  expect(result.stderr).toBe("");
  return result.json.find(({ type }) => type === "start")!;
};

describe("train", () => {
  flag("train --config", async () => {
    const elsewhere = await tableProject(join(place.dir, "elsewhere"), { training: { steps: 1, seed: 41 } });
    const { settings } = await configOf(`--name config --config ${join(elsewhere, "stateset.config.ts")}`);
    expect(settings).toMatchObject({ steps: 1, seed: 41 });
  });
  flag("train --name", async () => {
    expect((await configOf("--steps 1 --name called")).run).toBe("called");
    expect(existsSync(join(place.dir, "runs/called/metrics.jsonl"))).toBe(true);
  });
  flag("train --resume", async () => {
    await trained("--name whole --steps 4 --seed 3");
    await trained("--name part --steps 2 --seed 3");
    const resumed = await trained(`--resume ${join(place.dir, "runs/part")} --steps 4`);
    expect(resumed.json[0]).toMatchObject({ type: "start", run: "part", resumedAfter: 2 });
    expect((await trained("--resume part --steps 4")).json[0]).toMatchObject({ run: "part", resumedAfter: 4 });
    // Without a value it takes the newest run, which is this one and has nothing left to do.
    expect((await trained("--resume")).json[0]).toMatchObject({ run: "part", resumedAfter: 4 });
  });
  flag("train --accept-changes", async () => {
    const project = (prompt: string) =>
      tableProject(join(place.dir, "changing"), {
        rest: `agent: new MultiTurnAgent({ policy: createTablePolicy(), systemPrompt: "${prompt}", sampling: { maxTokens: 4 } }),`,
      });
    const cwd = await project("Be polite.");
    await run("train --json --name a --steps 1", { cwd });
    await project("Be brief.");
    const refused = await run("train --json --resume runs/a --steps 2", { cwd });
    expect(refused.status).toBe(2);
    expect(refused.json.at(-1)).toMatchObject({
      type: "error",
      message: expect.stringContaining('agent.systemPrompt "Be polite." → "Be brief."') as string,
      hint: expect.stringContaining("--accept-changes") as string,
    });
    const asked = await cli(["train", "--resume", "runs/a", "--steps", "2"], { cwd, tty: true, env: { CI: "1" } });
    expect(asked.status).toBe(2);
    const accepted = await run("train --json --resume runs/a --steps 2 --accept-changes", { cwd });
    expect(accepted.json.at(-1)).toMatchObject({ status: "finished", steps: 2 });
    // What the command line itself says needs no further word.
    expect((await run("train --json --resume runs/a --steps 3 --kl 0.1", { cwd })).status).toBe(0);
  });
  flag("train --discard-later", async () => {
    await trained("--name later --steps 3 --set checkpoint.every=1");
    const from = join(place.dir, "runs/later/checkpoints/step-000002");
    const refused = await trained(`--resume ${from}`);
    expect([refused.status, refused.json.at(-1)!.hint]).toEqual([2, expect.stringContaining("--discard-later")]);
    expect((await trained(`--resume ${from} --name split`)).json[0]).toMatchObject({ run: "split", resumedAfter: 2 });
    expect(existsSync(join(place.dir, "runs/later/checkpoints/step-000003"))).toBe(true);
    expect((await trained(`--resume ${from} --discard-later`)).json[0]).toMatchObject({
      run: "later",
      resumedAfter: 2,
    });
  });
  it("train refuses a name that leaves the folder", async () => {
    expect((await run("train --name a/../../x --steps 1 --dry-run")).status).toBe(2);
    const result = await run("train --name a/../../x --steps 1");
    expect(result.status).toBe(2);
    expect(result.stderr).toContain("cannot be the name of a run");
  });
  flag("train --save", async () => {
    await trained("--steps 1 --name saving --save out/agent");
    expect(existsSync(join(place.dir, "out/agent/agent.json"))).toBe(true);
  });
  flag("train --dry-run", async () => {
    const plan = await run("train --dry-run --steps 7 --name planned");
    expect(plan.stdout).toMatch(/Plan \(nothing is trained\)/);
    expect(plan.stdout).toMatch(/steps +7 × 2 groups × 4 = 56 conversations/);
    const longer = await run("train --dry-run --steps 20");
    expect(longer.stdout).toMatch(/= 160 conversations, and 12 to begin with/);
    expect(plan.stdout).toMatch(/memory +about .* fits in/);
    expect(plan.stdout).toMatch(/time +about /);
    expect(plan.stdout).toMatch(/disk +about .*\(\d checkpoints? of .*, final .*, trajectories \d/);
    expect(existsSync(join(place.dir, "runs/planned"))).toBe(false);
    const [json] = (await run("train --dry-run true --json")).json;
    expect(json).toMatchObject({ type: "plan", scenarios: 3, heldOut: 2, reward: "polite" });
    const { checkpoint, checkpoints, final, trajectories, total } = json!.disk;
    expect(trajectories).toBeGreaterThan(0);
    expect(total).toBe(checkpoints * checkpoint + final + trajectories);
    // Those of evaluations are among them.
    const [without] = (await run("train --dry-run true --json --set evaluation.every=0")).json;
    expect(without!.disk.trajectories).toBeLessThan(trajectories);
    await run("train --dry-run false --steps 1 --name really");
    expect(existsSync(join(place.dir, "runs/really"))).toBe(true);
    expect((await run("train --dry-run perhaps")).status).toBe(2);
  });
  it("train stops at once at a mistake in the code of a reward, and shows the line; --dry-run too", async () => {
    const cwd = await tableProject(await temporaryFolder(), {
      head: "const broken = rewardFunction({ name: 'broken' }, ({ turns }) => (turns as any).missing.length);",
      rest: "reward: broken,",
    });
    for (const args of ["train --dry-run", "train --name r"]) {
      const { status, stderr } = await run(args, { cwd });
      expect(status, args).toBe(7);
      expect(stderr).toMatch(/TypeError: Cannot read properties of undefined[\s\S]*stateset\.config\.ts:\d+:\d+/);
    }
    expect((await run("runs show r --json", { cwd })).json[0]).toMatchObject({ status: "failed", steps: 1 });
  });
  it("train --dry-run plans what the run will do", async () => {
    const cwd = await tableProject(join(place.dir, "plans"), { training: { groupSize: undefined, seed: 8 } });
    const first = async (args: string) => (await run(`train --json ${args}`, { cwd })).json[0]!;
    const planned = await first("--dry-run --algorithm gspo --steps 2");
    const { settings } = await first(
      "--algorithm gspo --steps 2 --name g --set epsilonHigh=0.1 --profile conservative",
    );
    expect(planned.config.groupSize).toBe(settings.groupSize);
    expect(planned.resumedAfter).toBeNull();
    // A resumed run goes on with its own settings, with as many steps as are left.
    const resumed = await first("--dry-run --resume runs/g --steps 5 --set epsilonLow=0.2");
    const { clipNorm, kl, warmup } = settings;
    expect(resumed.config).toMatchObject({ profile: "conservative", clipNorm, kl, warmup, steps: 5 });
    expect(resumed.algorithm).toMatchObject({ algorithm: "gspo", epsilonLow: 0.2, epsilonHigh: 0.1 });
    expect(resumed).toMatchObject({ resumedAfter: 2, conversations: 3 * 2 * settings.groupSize });
    // autoAdjust may turn the KL penalty on, so the run keeps a reference.
    const memory = async (args: string, reward?: string) =>
      (await run(`train --dry-run --json --model ${place.model}${args}`, { cwd: await optionsProject(reward) }))
        .json[0]!.memory;
    expect(await memory("", "")).toMatchObject({ reference: 0, scorer: 0, undo: 0 });
    // A reward that asks how likely replies are keeps the first weights, unless a reference holds them already.
    const { weights, total, ...others } = await memory("");
    expect(others).toMatchObject({ reference: 0, scorer: weights });
    const { optimiser, activations, cache, saving, keptActivations } = others;
    expect(total).toBe(2 * weights + optimiser + activations + cache + saving + keptActivations);
    expect(await memory(" --auto-adjust")).toMatchObject({ reference: weights, scorer: 0, undo: weights });
    expect(await memory(" --kl 0.1 --set kl.renewEvery=2")).toMatchObject({ reference: weights, scorer: weights });
    const { stdout } = await run(`train --dry-run --model ${place.model}`, { cwd: await optionsProject() });
    expect(stdout).toMatch(/memory .*the reward's reference \d/);
  });
  it.each(["f32", "bf16"])("train --dry-run foresees the size of a checkpoint with moments in %s", async (moments) => {
    const cwd = await optionsProject(`agent:\n  moments: ${moments}\nreward:\n  politeness: 1\n`);
    const args = `train --json --model ${place.model}`;
    const { checkpoint, final } = (await run(`${args} --dry-run`, { cwd })).json[0]!.disk;
    expect((await run(`${args} --name sized`, { cwd })).status).toBe(0);
    const tensors = (dir: string) =>
      readdirSync(join(cwd, "runs/sized", dir), { recursive: true, withFileTypes: true })
        .filter(({ name }) => name.endsWith(".safetensors"))
        .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
    expect(tensors("checkpoints/step-000001") / checkpoint).toBeCloseTo(1, 1);
    expect(tensors("final") / final).toBeCloseTo(1, 1);
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
    expect((await configOf("--steps 1 --name careful --profile conservative")).settings).toMatchObject({
      profile: "conservative",
      clipNorm: 0.5,
    });
    expect((await run("train --profile reckless")).stderr).toContain("Allowed choices are conservative, balanced");
  });
  flag("train --auto-adjust", async () => {
    await trained("--steps 2 --name adjusted --auto-adjust");
    expect(JSON.parse(readFileSync(join(place.dir, "runs/adjusted/cli.json"), "utf8"))).toMatchObject({
      autoAdjust: true,
    });
    const state = readFileSync(join(place.dir, "runs/adjusted/checkpoints/step-000002/state.json"), "utf8");
    expect(JSON.parse(state).callbacks).toHaveProperty("auto-adjust");
    const config = JSON.parse(readFileSync(join(place.dir, "runs/adjusted/config.json"), "utf8"));
    expect(config.settings.kl.estimator).toBe("k2");
  });
  it("train shows a verdict for as long as it holds", async () => {
    // The same reward for the two evaluations before training and for two steps, then one that tells replies apart.
    const rest = `reward: rewardFunction({ name: "late" }, ({ turns }) => (++calls > 4 + 4 + 16 ? turns[1]!.content.length : 0)),`;
    const cwd = await tableProject(join(place.dir, "recovering"), { head: "let calls = 0;", rest });
    const args = ["train", "--steps", "4", "--name", "recovers"];
    const { stdout } = await cli(args, { cwd, tty: true, env: { NO_COLOR: "1" } });
    expect(stdout).toContain("no-signal since step 2");
    expect(stdout.slice(stdout.lastIndexOf("step     "))).not.toContain("no-signal");
  });
  flag("train --no-auto-adjust", async () => {
    const cwd = await tableProject(join(place.dir, "adjusting"), { rest: "autoAdjust: true," });
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
    expect(readdirSync(join(place.dir, "runs/tracked/tensorboard"))).toHaveLength(1);
    expect(readdirSync(join(place.dir, "runs/tracked/wandb"))[0]).toMatch(/^offline-run-.*-tracked$/);
  });
  flag("train --model", async () => {
    const cwd = await optionsProject();
    expect((await run("train --dry-run --model /no/such/model", { cwd })).stderr).toContain("/no/such/model");
    const [plan] = (await run(`train --dry-run --json --model ${place.model}`, { cwd })).json;
    expect(plan).toMatchObject({ model: { name: place.model, architecture: "llama" } });
  });
  engineFlags("train", async (flags) => run(`train --dry-run ${flags}`, { cwd: await optionsProject() }));
  flag("train --threads", async () => {
    const cwd = await optionsProject();
    expect((await run("train --dry-run --threads 0", { cwd })).stderr).toContain("agent.threads");
    expect((await run(`train --dry-run --model ${place.model} --threads 1`, { cwd })).status).toBe(0);
  });
  flag("train --checkpoint", async () => {
    const cwd = await learnFolder(place.model);
    const played = async (args: string) => (await run(`train --json ${args}`, { cwd })).json;
    await run("sft --json --data chats.jsonl --lora 2 --name taught", { cwd });
    await played("--name further --checkpoint taught");
    const config = (name: string): Json => JSON.parse(readFileSync(join(cwd, "runs", name, "config.json"), "utf8"));
    expect(config("further").model).toMatchObject({ name: join(cwd, "runs/taught/final"), lora: { rank: 2 } });
    // A run that goes on knows what it began with.
    expect((await played("--resume further --steps 2")).at(-1)).toMatchObject({ run: "further", steps: 2 });
    await played("--name from-step --checkpoint runs/further/checkpoints/step-000001");
    expect(config("from-step").model.lora).toMatchObject({ rank: 2 });
    expect((await run("train --checkpoint taught --stub", { cwd })).stderr).toContain("nothing to train from");
    expect((await run("train --checkpoint taught --model x", { cwd })).stderr).toContain("both say what to start from");
    expect((await run(`train --checkpoint ${place.model}`)).stderr).toContain("cannot change the agent that");
  });
  flag("train --skip-bad", async () => {
    const cwd = await temporaryFolder();
    writeFileSync(join(cwd, "scenes.jsonl"), 'no JSON\n{"id": "good", "userResponses": ["hello"]}\n');
    writeFileSync(
      join(cwd, "stateset.config.yaml"),
      "environment: { scenarios: scenes.jsonl }\nreward: { politeness: 1 }\n",
    );
    expect((await run("train --stub --dry-run", { cwd })).stderr).toContain("scenes.jsonl, line 1");
    const { status, stderr, stdout } = await run("train --stub --dry-run --skip-bad", { cwd });
    expect([status, stdout]).toEqual([0, expect.stringContaining("1 to train on")]);
    expect(stderr).toContain("! 1 of 2 entries of");
  });
  it("train gives a quantised model an adapter, which is all of it that can be trained", async () => {
    const cwd = await learnFolder(place.model);
    const dir = await makeTinyModel("llama", { hidden_size: 64, intermediate_size: 96 });
    const model = join(cwd, "tiny.gguf");
    await exportGguf({ dir, file: model, type: "Q8_0", name: "tiny" });
    const [plan] = (await run(`train --dry-run --json --model ${model}`, { cwd })).json;
    expect(plan!.model.lora).toMatchObject({ rank: 16 });
    const [whole] = (await run(`train --dry-run --json --model ${dir}`, { cwd })).json;
    expect(whole!.model.lora).toBeUndefined();
    await run(`train --json --steps 1 --model ${model} --name adapted`, { cwd });
    expect(existsSync(join(cwd, "runs/adapted/final/adapter_config.json"))).toBe(true);
  });
  flag("train --lora", async () => {
    const cwd = await learnFolder(place.model);
    const [plan] = (await run("train --dry-run --json --lora 4", { cwd })).json;
    expect(plan!.model.lora).toMatchObject({ rank: 4, alpha: 8 });
  });
  flag("train --reward", async () => {
    const cwd = await learnFolder(place.model);
    writeFileSync(join(cwd, "short.js"), "export default ({ turns }) => -turns.at(-1).content.length;");
    expect((await run("train --dry-run --json --reward short.js", { cwd })).json[0]).toMatchObject({ reward: "short" });
    await run("reward-model --json --data pairs.jsonl --name taste", { cwd });
    const trained = await run("train --json --reward taste --name tasted", { cwd });
    expect(trained.json.at(-1)).toMatchObject({ status: "finished" });
    const { reward } = JSON.parse(readFileSync(join(cwd, "runs/tasted/config.json"), "utf8")) as Json;
    expect(reward.parts).toMatchObject([{ name: "neural", kind: "NeuralReward" }]);
    expect((await run("train --json --resume tasted --steps 2", { cwd })).status).toBe(0);
    const next = await run("train --reward taste --name again", { cwd });
    expect(next.stdout).toMatch(/evaluate --checkpoint runs\/again --scenarios.* --reward taste/);
  });
  flag("train --wandb-project", async () => {
    await trained("--steps 1 --name with-project --wandb-project experiments");
    const folder = join(place.dir, "runs/with-project/wandb");
    const [offline] = readdirSync(folder);
    const [file] = readdirSync(join(folder, offline!)).filter((name) => name.endsWith(".wandb"));
    expect(readFileSync(join(folder, offline!, file!), "latin1")).toContain("experiments");
  });
  it("train knows the Python system's names, and the configuration without its flag", async () => {
    const cwd = await learnFolder(place.model);
    const plan = async (args: string) => (await run(`train --dry-run --json ${args}`, { cwd })).json[0]!;
    expect((await plan(`stateset.config.yaml --model-name ${place.other}`)).model.name).toBe(place.other);
    expect((await plan("--num-episodes 12")).config.steps).toBe(2);
    expect((await run("train --num-episodes 2 --episodes 2", { cwd })).status).toBe(2);
    expect((await run("train a.yaml --config b.yaml", { cwd })).stderr).toContain("both name the config");
  });
  it("train says in the flags' own words that a name is taken", async () => {
    await trained("--steps 1 --name taken");
    const { stderr } = await run("train --steps 1 --name taken");
    expect(stderr).toContain('The name "taken" is taken: runs/taken already holds a run.');
    expect(stderr).toContain("→ Give another --name, or go on with it: npx stateset-agents train --resume runs/taken");
    await trained("--steps 1 --name free");
    expect((await run("train --resume free --name taken")).stderr).toContain("→ Give another --name");
  });
  it("train ends with commands that work as they are", async () => {
    const cwd = await learnFolder(place.model, join(await temporaryFolder(), "a folder"));
    const from = join(cwd, "..");
    const { stdout } = await cli(["train", "--config", "a folder/stateset.config.yaml", "--name", "my run"], {
      cwd: from,
    });
    const next = [...stdout.matchAll(/^ {2}npx stateset-agents (.*)$/gm)].map(([, words]) => words!);
    expect(next).toEqual([
      "chat --checkpoint 'runs/my run'",
      "evaluate --checkpoint 'runs/my run' --scenarios --config 'a folder/stateset.config.yaml'",
    ]);
    for (const words of next) {
      const args = [...words.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, bare]) => quoted ?? bare!);
      expect(await cli(args, { cwd: from, input: "hello\n" })).toMatchObject({ status: 0 });
    }
  });
  flag("train --algorithm", async () => {
    expect((await configOf("--steps 1 --name other --algorithm dr-grpo")).learner).toBe("dr-grpo");
    expect((await run("train --algorithm grppo")).status).toBe(2);
    // What the project sets for its own algorithm says nothing about another one, unlike what stands on the command line.
    const cwd = await tableProject(join(place.dir, "dapo"), {
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
      expect(read((await configOf(`${steps}--name with-${name} --${name} ${value}`)).settings)).toBe(expected);
      expect((await run(`train --${name} nonsense`)).status).toBe(2);
    });
  }
  flag("train --constrain", async () => {
    expect((await configOf("--steps 1 --name plain")).settings.constrain).toBe(false);
    // The project's agent is a table of numbers, which has no tokens to mask; but it has no tools either.
    expect((await configOf("--steps 1 --name held --constrain")).settings.constrain).toBe(true);
  });
  flag("train --json", async () => {
    const { stdout, json } = await trained("--steps 1 --name events");
    expect(stdout.trimEnd().split("\n")).toHaveLength(json.length);
    const types = json.map(({ type }) => type);
    expect([types[0], types.at(-2), types.at(-1)]).toEqual(["start", "end", "result"]);
    expect(types).toEqual(expect.arrayContaining(["step", "checkpoint", "evaluation"]));
    const weights = { step: expect.any(Number) as number, scenarios: 1, why: expect.stringContaining("1 selection") };
    expect(json.at(-1)).toMatchObject({ status: "finished", steps: 1, weights, heldOut: { before: { count: 1 } } });
    expect(json.at(-2)).toMatchObject({ type: "end", weights });
  });
  it("train says which weights it ends with, and why", async () => {
    const { stdout } = await run("train --steps 1 --name weights");
    expect(stdout).toMatch(/ {2}held-out {2}\d\.\d+ \(n=1 is too small\) → \d\.\d+ \(n=1 is too small\)/);
    expect(stdout).toMatch(/ {2}weights {3}(the last step's|those the run began with).* on 1 selection scenario \(/);
  });
});

async function optionsProject(reward = "reward:\n  politeness: 1\n"): Promise<string> {
  const cwd = await temporaryFolder();
  writeFileSync(
    join(cwd, "stateset.config.yaml"),
    `environment:\n  preset: customer_service\n${reward}training:\n  group_size: 2\n  groups_per_step: 1\n  steps: 1\n`,
  );
  return cwd;
}

complete();
